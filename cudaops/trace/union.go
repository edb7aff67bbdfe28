package trace

// covered computes the length of the union of intervals, which must be added in order of their starts.
type covered struct {
	length, end int64
	any         bool
}

func (c *covered) add(iv interval) {
	if !c.any || iv.start > c.end {
		c.length += iv.end - iv.start
		c.end, c.any = iv.end, true
		return
	}

	if iv.end > c.end {
		c.length += iv.end - c.end
		c.end = iv.end
	}
}

// sweep computes the parts of a time window. Kernels must be added in order of their starts.
type sweep struct {
	window            interval
	commSum           int64
	comm, compute, on covered // on is the union of both
}

// add adds a kernel, clipped to the window.
func (s *sweep) add(k kernel, isComm bool) {
	iv := interval{max(k.start, s.window.start), min(k.end, s.window.end)}
	s.on.add(iv)
	if !isComm {
		s.compute.add(iv)
		return
	}

	s.comm.add(iv)
	s.commSum = plus(s.commSum, iv.end-iv.start)
}

// parts returns the figures of the window.
func (s *sweep) parts() Parts {
	sum, comm, compute := s.commSum, s.comm.length, s.compute.length
	both := comm + compute - s.on.length
	exposed := comm - both
	return Parts{CommSumNs: &sum, CommUnionNs: &comm, ComputeUnionNs: &compute, OverlapNs: &both,
		ExposedCommNs: &exposed}
}

// stepping evaluates all steps in one pass. Kernels must be added in order of their starts.
type stepping struct {
	steps []span // sorted by start
	out   []Step
	next  int // index of the first step that has not started
	open  []openStep
	// over are the kernels that extend beyond the start of the next step.
	over []overKernel
}

type openStep struct {
	at int
	sweep
}

type overKernel struct {
	kernel
	comm bool
}

func newStepping(steps []span) *stepping {
	s := &stepping{steps: steps, out: make([]Step, len(steps))}
	for i, st := range steps {
		s.out[i] = Step{Name: st.name, StartNs: st.start, WallNs: st.end - st.start}
	}
	return s
}

// add adds a kernel to the steps during which it runs.
func (s *stepping) add(k kernel, comm bool) {
	s.until(k.start)
	kept := s.open[:0]

	for i := range s.open {
		o := s.open[i]
		if o.window.end <= k.start {
			s.close(o)
			continue
		}
		if k.end > o.window.start {
			o.add(k, comm)
			// A kernel is counted in the step in which it starts.
			s.count(o.at, comm)
		}
		kept = append(kept, o)
	}

	s.open = kept
	if s.next < len(s.steps) && k.end > s.steps[s.next].start {
		s.over = append(s.over, overKernel{k, comm})
	}
}

func (s *stepping) count(at int, comm bool) {
	s.out[at].Kernels++
	if comm {
		s.out[at].Collectives++
	}
}

// until opens the steps that start at or before t and adds the kernels that are still running.
func (s *stepping) until(t int64) {
	for s.next < len(s.steps) && s.steps[s.next].start <= t {
		o := openStep{at: s.next, sweep: sweep{window: s.steps[s.next].interval}}
		running := s.over[:0]

		for _, k := range s.over {
			if k.end <= o.window.start {
				continue
			}
			running = append(running, k)
			if k.start < o.window.end {
				o.add(k.kernel, k.comm)
			}
		}

		s.over = running
		s.open = append(s.open, o)
		s.next++
	}
}

func (s *stepping) close(o openStep) {
	out := &s.out[o.at]
	out.Parts = o.parts()
	out.BusyNs = o.on.length
	out.BubbleNs = out.WallNs - out.BusyNs
}

// finish returns all steps. It must be called after the last kernel.
func (s *stepping) finish() []Step {
	if n := len(s.steps); n > 0 {
		s.until(s.steps[n-1].start)
	}

	for _, o := range s.open {
		s.close(o)
	}

	s.open = nil
	return s.out
}
