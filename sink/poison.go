package sink

import (
	"container/list"
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

func (p *poison) add(now time.Time, r *Route, id string) {
	if id == "" {
		return
	}
	if p.ids == nil {
		p.ids = make(map[poisonID]*list.Element)
	}
	key := poisonID{r, id}
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
	_, ok := p.ids[poisonID{r, id}]
	return ok
}

func (p *poison) drop(e *list.Element) {
	delete(p.ids, e.Value.(poisoned).id)
	p.order.Remove(e)
}
