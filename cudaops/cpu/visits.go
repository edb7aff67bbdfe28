package cpu

import (
	"context"
	"runtime"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// visits is a worker.Visitor of a case that is measured in several visits.
type visits struct {
	// prepare creates the kernel. It is called for each visit, because the shared operand memory moves when
	// it grows.
	prepare func() (*kernel, error)
	finish  func(worker.Row, *kernel)
	state   *measure.Visits
	pace    *pace
	n       int
}

func (e *env) visits(prepare func() (*kernel, error), finish func(worker.Row, *kernel)) (*visits, error) {
	state, err := measure.NewVisits(e.clock, e.settings)
	if err != nil {
		return nil, err
	}

	if e.pace == nil {
		e.pace = newPace()
	}
	return &visits{prepare: prepare, finish: finish, state: state, pace: e.pace}, nil
}

// Visit makes one visit, on different CPUs than the previous one.
func (v *visits) Visit(ctx context.Context) ([]worker.Row, float64, bool, error) {
	kern, err := v.prepare()
	if err != nil {
		return nil, 0, false, err
	}

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	kern.team = assemble(kern.threads, v.n)
	defer kern.team.dismiss()
	v.n++
	before := v.pace.slow()

	if err := v.state.Visit(ctx, kern); err != nil {
		return nil, 0, false, err
	}

	if after := v.pace.slow(); before || after {
		v.state.Disturbed()
	}

	if !v.state.Done() {
		return nil, 0, false, nil
	}

	r := v.state.Result()
	row := worker.Row(r.Columns())
	row["kernel_source"], row["threads"] = kern.source, kern.threads
	row["bytes"], row["flops"] = kern.bytes, kern.flops
	v.finish(row, kern)

	return []worker.Row{row}, r.Spent.Seconds(), true, nil
}
