package trace

import "slices"

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

// perStep evaluates the steps of a device, whose kernels are sorted.
func (r *recording) perStep(d *device, steps []span) []Step {
	latest := make([]int64, len(d.kernels)) // the latest end of a kernel and those before it
	for i, k := range d.kernels {
		latest[i] = k.end
		if i > 0 {
			latest[i] = max(k.end, latest[i-1])
		}
	}

	out := []Step{}
	for _, st := range steps {
		step := Step{Name: st.name, StartNs: st.start, WallNs: st.end - st.start}
		in := sweep{window: st.interval}
		first, _ := slices.BinarySearch(latest, st.start+1)

		for _, k := range d.kernels[first:] {
			if k.start >= st.end {
				break
			}
			if k.end <= st.start {
				continue
			}

			in.add(k, r.isComm(k))
			if k.start < st.start {
				continue // it is counted in the step in which it starts
			}
			step.Kernels++
			if r.isComm(k) {
				step.Collectives++
			}
		}

		step.Parts, step.BusyNs = in.parts(), in.on.length
		step.BubbleNs = step.WallNs - step.BusyNs
		out = append(out, step)
	}

	return out
}
