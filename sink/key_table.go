package sink

import "hash/maphash"

// keyTable finds the groups of a lane by their keys. An entry's key comes and goes with it, which
// a map hashes three times for; here the group keeps the hash and its place.
type keyTable struct {
	seed    maphash.Seed
	buckets []*group // a power of two, each a list by group.nextKey
	n       int
}

func newKeyTable() keyTable {
	return keyTable{seed: maphash.MakeSeed(), buckets: make([]*group, 8)}
}

func (t *keyTable) hash(key string) uint64 { return maphash.String(t.seed, key) }

func (t *keyTable) bucket(hash uint64) **group {
	return &t.buckets[hash&uint64(len(t.buckets)-1)]
}

// find is the group of key, whose hash is given; nil = there is none.
func (t *keyTable) find(hash uint64, key string) *group {
	g := *t.bucket(hash)
	for g != nil && (g.hash != hash || g.key != key) {
		g = g.nextKey
	}
	return g
}

// add takes in the group of a key that has none.
func (t *keyTable) add(g *group, hash uint64) {
	g.hash = hash
	if t.n >= len(t.buckets) {
		old := t.buckets
		t.buckets = make([]*group, 2*len(old))
		for _, o := range old {
			for o != nil {
				next := o.nextKey
				t.link(o)
				o = next
			}
		}
	}
	t.link(g)
	t.n++
}

func (t *keyTable) link(g *group) {
	at := t.bucket(g.hash)
	g.nextKey, *at = *at, g
}

func (t *keyTable) remove(g *group) {
	at := t.bucket(g.hash)
	for *at != g {
		at = &(*at).nextKey
	}
	*at, g.nextKey = g.nextKey, nil
	t.n--
}
