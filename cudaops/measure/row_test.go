package measure_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/measure/measuretest"
)

// linked is a target that can be visited in a row with others of its process.
type linked struct {
	*measuretest.GPUTarget
	rows *rows
	id   int
}

// rows notes the visits in a row of a device.
type rows struct {
	processes int
	lengths   []int
	pauses    []time.Duration
	alone     int     // the target that has to be visited alone; -1 for none
	heats     float64 // MHz by which the clock falls in the pauses
	mixed     bool    // a row had targets of several processes
	again     int     // rows with the target alone
}

func (l *linked) Follows(first measure.Burster) bool {
	of, ok := first.(*linked)
	return ok && of.id%l.rows.processes == l.id%l.rows.processes
}

func (l *linked) Row(ctx context.Context, links []measure.Link, pause time.Duration) (
	out [][]measure.Block, err error) {
	l.rows.lengths = append(l.rows.lengths, len(links))
	for i, x := range links {
		t := x.Target.(*linked)
		l.rows.mixed = l.rows.mixed || !t.Follows(l)
		if i > 0 {
			l.rows.pauses = append(l.rows.pauses, pause)
			t.GPU.Clock.Advance(pause)
			t.GPU.Heat(l.rows.heats)
		}
		if t.id == l.rows.alone {
			l.rows.again++
			out = append(out, nil)
			continue
		}
		blocks, err := t.Burst(ctx, x.Burst)
		if err != nil {
			return out, err
		}
		out = append(out, blocks)
	}
	return out, nil
}

// inRows runs light cases whose targets can be visited in a row.
func inRows(t *testing.T, r *rows, change func(*outcome, []*measuretest.GPUTarget)) (outcome, []gpuCase) {
	t.Helper()
	cases := workload(90)
	for i := range cases {
		cases[i].watts = 60 + 2*float64(i)
	}
	return sustained(t, cases, 1, func(o *outcome, targets []*measuretest.GPUTarget, jobs []*measure.Job) {
		o.session.Tuning.RecoverWatts = 150 // the heaviest cases have to wait
		for i, j := range jobs {
			if r != nil {
				j.Target = &linked{targets[i], r, i}
			}
		}
		if change != nil {
			change(o, targets)
		}
	}), cases
}

func TestRowsOfVisitsGiveTheSameLatencies(t *testing.T) {
	t.Parallel()
	r := &rows{processes: 3, alone: -1}
	ended, idle, heat := 0, time.Duration(math.MaxInt64), 0.0
	o, cases := inRows(t, r, func(o *outcome, _ []*measuretest.GPUTarget) {
		o.session.Trace = func(v measure.Visit) {
			ended++
			if ended > 1 {
				idle = min(idle, v.Idle)
			}
			heat = max(heat, v.Heat)
		}
	})
	apart, _ := inRows(t, nil, nil)
	for i, got := range o.results {
		if o.errs[i] != nil {
			t.Fatal(o.errs[i])
		}
		if off := got.Latency / 1e3 / cases[i].latency; math.Abs(off-1) > 0.01 {
			t.Errorf("case %d is %.4f of what it takes alone", i, off)
		}
		if got.Passes != apart.results[i].Passes || got.BlockMillis < 0.9*apart.results[i].BlockMillis ||
			got.BlockMillis > 1.1*apart.results[i].BlockMillis {
			t.Errorf("case %d: %d passes of %.3f ms, and %d of %.3f ms without rows", i, got.Passes, got.BlockMillis,
				apart.results[i].Passes, apart.results[i].BlockMillis)
		}
	}
	if n := len(r.lengths); n == 0 || slices.Max(r.lengths) != 8 || r.mixed {
		t.Errorf("rows of %v visits, some of several processes: %v", r.lengths, r.mixed)
	}
	tuning := o.session.Tuning
	// The heat that a visit in a row finds follows from estimates, which are up to 30 % off.
	if slices.Min(r.pauses) < tuning.Gap || idle < tuning.Gap || heat > 1.2*tuning.HeatJoules {
		t.Errorf("least pause %v, least time between visits %v, most heat %.3f J; want %v, %v, %.3f J",
			slices.Min(r.pauses), idle, heat, tuning.Gap, tuning.Gap, tuning.HeatJoules)
	}
	if o.elapsed > apart.elapsed*11/10 {
		t.Errorf("%v with rows, %v without", o.elapsed, apart.elapsed)
	}
}

func TestFailedVisitOfARowEndsItsCaseOnly(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	o, _ := inRows(t, &rows{processes: 1, alone: -1}, func(_ *outcome, targets []*measuretest.GPUTarget) {
		for _, i := range []int{7, 8, 40} {
			targets[i].Fail = func(burst int) error {
				if burst == i%2 {
					return broken
				}
				return nil
			}
		}
	})
	for i, err := range o.errs {
		if want := i == 7 || i == 8 || i == 40; errors.Is(err, broken) != want || !want && o.results[i].Latency <= 0 {
			t.Errorf("case %d: %v", i, err)
		}
	}
}

func TestVisitThatARowLeavesOutIsMadeAlone(t *testing.T) {
	t.Parallel()
	r := &rows{processes: 1, alone: 11}
	o, cases := inRows(t, r, nil)
	if got := o.results[11]; o.errs[11] != nil || math.Abs(got.Latency/1e3/cases[11].latency-1) > 0.01 {
		t.Errorf("%+v, %v", got, o.errs[11])
	}
	if r.again != 1 {
		t.Errorf("it was in %d rows", r.again)
	}
}

// TestRowsEndIfTheDeviceTires: the clock falls in the pauses of a row, so its visits do not count.
func TestRowsEndIfTheDeviceTires(t *testing.T) {
	t.Parallel()
	r := &rows{processes: 1, alone: -1, heats: 90}
	o, cases := inRows(t, r, nil)
	for i, got := range o.results {
		if off := got.Latency / 1e3 / cases[i].latency; o.errs[i] != nil || math.Abs(off-1) > 0.02 {
			t.Errorf("case %d is %.4f of what it takes alone: %v", i, off, o.errs[i])
		}
	}
	if len(r.lengths) > 4 {
		t.Errorf("%d rows", len(r.lengths))
	}
}
