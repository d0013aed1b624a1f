package sink

// links are an element's place in one intrusive list: moving an entry allocates nothing.
type links[T any] struct {
	prev, next *T
}

// chain is a doubly linked list through the links that at finds in an element.
type chain[T any] struct {
	head, tail *T
	n          int
	at         func(*T) *links[T]
}

func (q *chain[T]) pushBack(e *T) {
	l := q.at(e)
	l.prev, l.next = q.tail, nil
	if q.tail == nil {
		q.head = e
	} else {
		q.at(q.tail).next = e
	}
	q.tail = e
	q.n++
}

func (q *chain[T]) pushFront(e *T) {
	l := q.at(e)
	l.prev, l.next = nil, q.head
	if q.head == nil {
		q.tail = e
	} else {
		q.at(q.head).prev = e
	}
	q.head = e
	q.n++
}

// remove takes e out; an element that is not in the list is left alone.
func (q *chain[T]) remove(e *T) {
	if !q.has(e) {
		return
	}
	l := q.at(e)
	if l.prev == nil {
		q.head = l.next
	} else {
		q.at(l.prev).next = l.next
	}
	if l.next == nil {
		q.tail = l.prev
	} else {
		q.at(l.next).prev = l.prev
	}
	*l = links[T]{}
	q.n--
}

func (q *chain[T]) has(e *T) bool { return q.head == e || q.at(e).prev != nil }

func (q *chain[T]) next(e *T) *T { return q.at(e).next }

// ordered holds elements in the order of less. Nearly all come in order: they stand in a list,
// which costs the same however many there are. The others stand in a heap.
type ordered[T any] struct {
	list chain[T]
	rest heap[*T]
}

func newOrdered[T any](less func(a, b *T) bool, at func(*T) *links[T], pos func(*T) *int) ordered[T] {
	return ordered[T]{list: chain[T]{at: at}, rest: heap[*T]{less: less, pos: pos}}
}

func (q *ordered[T]) has(e *T) bool { return q.list.has(e) || *q.rest.pos(e) > 0 }

func (q *ordered[T]) push(e *T) {
	if q.list.tail == nil || !q.rest.less(e, q.list.tail) {
		q.list.pushBack(e)
	} else {
		q.rest.push(e)
	}
}

// first is the least element; nil = there is none.
func (q *ordered[T]) first() *T {
	e := q.list.head
	if q.rest.len() > 0 && (e == nil || q.rest.less(q.rest.s[0], e)) {
		return q.rest.s[0]
	}
	return e
}

// remove takes e out; an element that is not in is left alone.
func (q *ordered[T]) remove(e *T) {
	q.list.remove(e)
	q.rest.remove(e)
}

// fix restores the order after e's value changed.
func (q *ordered[T]) fix(e *T) {
	q.remove(e)
	q.push(e)
}

// heap is a binary heap whose elements know their place, so that any of them can be
// moved or removed. pos points at the element's 1-based place; 0 = not in the heap.
type heap[T any] struct {
	s    []T
	less func(a, b T) bool
	pos  func(T) *int
}

func (h *heap[T]) len() int { return len(h.s) }

func (h *heap[T]) push(e T) {
	h.s = append(h.s, e)
	*h.pos(e) = len(h.s)
	h.up(len(h.s) - 1)
}

func (h *heap[T]) remove(e T) {
	i := *h.pos(e) - 1
	if i < 0 {
		return
	}
	last := len(h.s) - 1
	h.swap(i, last)
	var none T
	h.s[last] = none
	h.s = h.s[:last]
	*h.pos(e) = 0
	if i < last {
		h.down(i)
		h.up(i)
	}
}

// fix restores the order after e's value changed.
func (h *heap[T]) fix(e T) {
	i := *h.pos(e) - 1
	h.down(i)
	h.up(i)
}

func (h *heap[T]) swap(i, j int) {
	if i == j {
		return
	}
	h.s[i], h.s[j] = h.s[j], h.s[i]
	*h.pos(h.s[i]), *h.pos(h.s[j]) = i+1, j+1
}

func (h *heap[T]) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if !h.less(h.s[i], h.s[p]) {
			return
		}
		h.swap(i, p)
		i = p
	}
}

func (h *heap[T]) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h.s) {
			return
		}
		if c+1 < len(h.s) && h.less(h.s[c+1], h.s[c]) {
			c++
		}
		if !h.less(h.s[c], h.s[i]) {
			return
		}
		h.swap(i, c)
		i = c
	}
}
