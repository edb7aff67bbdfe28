package worker

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"
)

// oneCase is a source whose only task a worker holds already.
type oneCase struct{ ends []Outcome }

func (*oneCase) Next() *Task      { return nil }
func (*oneCase) Pending() int     { return 0 }
func (o *oneCase) Done(e Outcome) { o.ends = append(o.ends, e) }

// atWork is a run whose only worker has begun a case with a deadline.
func atWork(deadline time.Duration) (*run, *oneCase) {
	p := NewPool(context.Background(), PoolSpec{Slots: []Slot{{Name: "w0", Device: -1}}})
	s, now := p.slots[0], time.Now()
	s.proc, s.state, s.starts = &Process{cancel: func() {}}, slotUp, 1
	s.held = []*flight{{task: &Task{Case: Case{ID: "a"}, Deadline: deadline}, seq: 1, startNo: 1, started: now}}
	s.arm(now)
	src := &oneCase{}
	r := &run{Pool: p, ctx: context.Background(), set: Settings{Log: func(string, string, string) {}}, src: src, timer: time.NewTimer(time.Hour)}
	return r, src
}

// says sends a message of the worker, as its forwarder does.
func (r *run) says(ev Event) {
	go func() { r.events <- slotEvent{proc: r.slots[0].proc, evs: []Event{ev}} }()
}

// TestAnEndThatIsThereCounts: a result that has come is heard before its deadline,
// which has passed since, is held against its case.
func TestAnEndThatIsThereCounts(t *testing.T) {
	t.Parallel()
	for range 30 { // which of two that are ready is taken first is a matter of chance
		synctest.Test(t, func(t *testing.T) {
			r, src := atWork(time.Second)
			r.says(Event{Result: &CaseResult{Seq: 1, Rows: []Row{{"latency": json.Number("1")}}}})
			time.Sleep(2 * time.Second)
			if err := r.loop((*run).idle); err != nil {
				t.Fatal(err)
			}
			if len(src.ends) != 1 || src.ends[0].Failure != nil || len(src.ends[0].Rows) != 1 {
				t.Errorf("%+v", src.ends)
			}
		})
	}
}

// TestATimeInWhichNobodyListens: where the process of the pool is stopped for an hour,
// no worker has let its deadline pass; one that says nothing afterwards has.
func TestATimeInWhichNobodyListens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, src := atWork(time.Minute)
		r.setTimer()
		time.Sleep(time.Hour)
		r.expireUnheard()
		if len(src.ends) > 0 {
			t.Fatalf("%+v", src.ends[0])
		}
		// It may have been stopped as well, so it has a minute of its own.
		r.setTimer()
		if left := time.Until(r.due); left != time.Minute {
			t.Errorf("%v are left", left)
		}
		time.Sleep(time.Minute)
		r.expireUnheard()
		if len(src.ends) != 1 || src.ends[0].Cause != CauseHung {
			t.Errorf("%+v", src.ends)
		}
	})
}
