package sink

import (
	"container/list"
	"crypto/sha256"
	"strings"
	"time"
)

const (
	poisonFor  = 10 * time.Minute // how long a rejected record's id is remembered
	poisonKept = 10_000           // how many are
)

// poison remembers the ids of records that were rejected for good, so that a redelivery
// of one is sent alone from the start. The zero value is ready.
type poison struct {
	ids   map[poisonID]*list.Element
	order list.List // of poisoned, oldest first
}

type poisonID struct {
	route *Route
	id    string
}

type poisoned struct {
	id poisonID
	at time.Time
}

// longestID is the longest id that is kept as it is.
const longestID = 64

// kept is what is remembered of a record's id: a text of its own, since an id may be part
// of a much longer one, and of bounded length.
func kept(id string) string {
	if len(id) > longestID {
		sum := sha256.Sum256([]byte(id))
		return string(sum[:])
	}
	return strings.Clone(id)
}

func (p *poison) add(now time.Time, r *Route, id string) {
	if id == "" {
		return
	}
	if p.ids == nil {
		p.ids = make(map[poisonID]*list.Element)
	}
	key := poisonID{r, kept(id)}
	if e := p.ids[key]; e != nil {
		e.Value = poisoned{key, now}
		p.order.MoveToBack(e)
		return
	}
	if p.order.Len() >= poisonKept {
		p.drop(p.order.Front())
	}
	p.ids[key] = p.order.PushBack(poisoned{key, now})
}

func (p *poison) has(now time.Time, r *Route, id string) bool {
	for e := p.order.Front(); e != nil && now.Sub(e.Value.(poisoned).at) > poisonFor; e = p.order.Front() {
		p.drop(e)
	}
	if len(p.ids) == 0 {
		return false
	}
	if len(id) > longestID {
		id = kept(id)
	}
	_, ok := p.ids[poisonID{r, id}]
	return ok
}

func (p *poison) drop(e *list.Element) {
	delete(p.ids, e.Value.(poisoned).id)
	p.order.Remove(e)
}
