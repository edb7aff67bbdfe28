package trace

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"iter"
	"slices"
)

// packSize is the number of kernels that are packed together.
const packSize = 1 << 16

// packed contains kernels sorted by time, delta-encoded. A kernel takes about nine bytes instead of 48.
type packed struct {
	from  int64 // start of the first kernel
	bytes []byte
}

func inOrder(a, b kernel) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name),
		cmp.Compare(a.mark, b.mark))
}

// pack moves the recent kernels into a new run.
func (d *device) pack() {
	slices.SortStableFunc(d.recent, inOrder)
	run := packed{from: d.recent[0].start, bytes: make([]byte, 0, 8*len(d.recent))}
	at := run.from

	for _, k := range d.recent {
		b := binary.AppendUvarint(run.bytes, uint64(k.start-at))
		b = binary.AppendUvarint(b, uint64(k.end-k.start))
		b = binary.AppendUvarint(b, uint64(k.mark))
		// The lowest bit marks kernels with details, which are rare.
		if k.detail == (detail{}) {
			b = binary.AppendUvarint(b, uint64(k.name)<<1)
		} else {
			b = binary.AppendUvarint(b, uint64(k.name)<<1|1)
			b = binary.AppendUvarint(b, uint64(k.group))
			b = binary.AppendUvarint(b, uint64(k.size))
			b = binary.AppendUvarint(b, uint64(k.bytes))
		}
		run.bytes, at = b, k.start
	}

	run.bytes = slices.Clip(run.bytes)
	d.runs = append(d.runs, run)
	d.recent = d.recent[:0]
}

// cursor iterates over a run.
type cursor struct {
	kernel
	rest []byte
}

func (c *cursor) next() bool {
	if len(c.rest) == 0 {
		return false
	}

	take := func() int64 {
		v, n := binary.Uvarint(c.rest)
		c.rest = c.rest[n:]
		return int64(v)
	}

	c.start += take()
	c.end = c.start + take()
	c.mark = uint16(take())
	name := take()
	c.name, c.detail = int32(name>>1), detail{}
	if name&1 == 1 {
		c.detail = detail{group: int32(take()), size: take(), bytes: take()}
	}

	return true
}

// cursors is a heap with the earliest kernel first.
type cursors []*cursor

func (h cursors) Len() int           { return len(h) }
func (h cursors) Less(i, j int) bool { return inOrder(h[i].kernel, h[j].kernel) < 0 }
func (h cursors) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *cursors) Push(x any)        { *h = append(*h, x.(*cursor)) }
func (h *cursors) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// ordered iterates over all kernels of the device, sorted by time.
func (d *device) ordered() iter.Seq[kernel] {
	return func(yield func(kernel) bool) {
		slices.SortStableFunc(d.recent, inOrder)
		if len(d.runs) == 0 {
			for _, k := range d.recent {
				if !yield(k) {
					return
				}
			}
			return
		}

		if len(d.recent) > 0 {
			d.pack()
		}

		var h cursors
		for _, run := range d.runs {
			c := &cursor{rest: run.bytes}
			c.start = run.from
			c.next()
			h = append(h, c)
		}

		heap.Init(&h)
		for len(h) > 0 {
			if !yield(h[0].kernel) {
				return
			}
			if h[0].next() {
				heap.Fix(&h, 0)
			} else {
				heap.Pop(&h)
			}
		}
	}
}
