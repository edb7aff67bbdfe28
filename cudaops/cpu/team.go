package cpu

import (
	"runtime"

	"aicplan/cudaops/affinity"
)

// team are threads that run the parts of a kernel, each on a processor of its own
// where there are enough: the caller's thread and further ones. A thread that moves
// from one processor to another leaves its caches behind, and Go's scheduler is kept
// out of it.
type team struct {
	all  []int // processors that the caller's thread may use; nil where unknown
	work []chan func(int)
	done chan struct{}
}

// assemble makes a team of so many threads. Another shift takes other processors:
// some may be busy with work of others. The caller has locked its goroutine to its
// thread.
func assemble(threads, shift int) *team {
	t := &team{done: make(chan struct{}, threads)}
	if all, err := affinity.Get(); err == nil && len(all) > 0 {
		t.all = all
		affinity.Set(t.place(shift))
	}
	for i := 1; i < threads; i++ {
		work := make(chan func(int), 1)
		t.work = append(t.work, work)
		go func() {
			runtime.LockOSThread() // it ends with the goroutine
			if t.all != nil {
				affinity.Set(t.place(shift + i))
			}
			for part := range work {
				part(i)
				t.done <- struct{}{}
			}
		}()
	}
	return t
}

// place is one processor.
func (t *team) place(i int) []int { return []int{t.all[i%len(t.all)]} }

// run has every thread do its part.
func (t *team) run(part func(thread int)) {
	for _, w := range t.work {
		w <- part
	}
	part(0)
	for range t.work {
		<-t.done
	}
}

// dismiss ends the further threads and lets the caller's go anywhere again.
func (t *team) dismiss() {
	for _, w := range t.work {
		close(w)
	}
	if t.all != nil {
		affinity.Set(t.all)
	}
}
