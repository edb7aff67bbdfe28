package cpu

import (
	"runtime"

	"aicplan/sink/base/proc"
)

// team runs the parts of a kernel on several threads, including the caller's. If there are enough CPUs,
// each thread is pinned to a different one, so that threads keep their caches and are not moved by the
// scheduler.
type team struct {
	all  []int // CPUs available to the caller's thread; nil if unknown
	work []chan func(int)
	done chan struct{}
}

// assemble starts a team. A different shift selects different CPUs, because some may be busy with other
// work. The caller must have locked its goroutine to its thread.
func assemble(threads, shift int) *team {
	t := &team{done: make(chan struct{}, threads)}
	if all, err := proc.CPUs(); err == nil && len(all) > 0 {
		t.all = all
		proc.SetCPUs(t.place(shift))
	}

	for i := 1; i < threads; i++ {
		work := make(chan func(int), 1)
		t.work = append(t.work, work)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			if t.all != nil {
				proc.SetCPUs(t.place(shift + i))
			}
			for part := range work {
				part(i)
				t.done <- struct{}{}
			}
		}()
	}

	return t
}

// place returns the CPU of thread i.
func (t *team) place(i int) []int { return []int{t.all[i%len(t.all)]} }

// run runs one part on each thread and waits for all of them.
func (t *team) run(part func(thread int)) {
	for _, w := range t.work {
		w <- part
	}
	part(0)
	for range t.work {
		<-t.done
	}
}

// dismiss ends the additional threads and unpins the caller's thread.
func (t *team) dismiss() {
	for _, w := range t.work {
		close(w)
	}
	if t.all != nil {
		proc.SetCPUs(t.all)
	}
}
