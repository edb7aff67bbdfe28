package worker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"aicplan/cudaops/worker"
)

// insideHost answers each case by its op.
type insideHost struct{}

// Configure implements worker.Host. The host has no settings.
func (*insideHost) Configure(worker.Init) error { return nil }

func (h *insideHost) Hello(context.Context) (worker.Hello, error) {
	return worker.Hello{Version: "1", Device: "none", Window: 2, Ops: []string{"ok", "panics", "waits"}}, nil
}

func (h *insideHost) Serve(ctx context.Context, in <-chan worker.Case, out worker.Emitter) error {
	for c := range in {
		out.Start(c.Seq)
		switch c.Op {
		case "panics":
			panic("boom in " + c.ID)
		case "waits":
			<-ctx.Done()
			return ctx.Err()
		}
		out.Result(c.Seq, []worker.Row{{"latency": 1.5}}, 0)
	}
	return nil
}

// TestInside runs a host in this process: its cases end as those of a process
// do, a panic included, and a case past its deadline has the host replaced.
func TestInside(t *testing.T) {
	t.Parallel()
	made := 0
	p := newPool(t, worker.PoolSpec{Slots: []worker.Slot{{Name: "w0", Device: -1, Spec: worker.Spec{
		Inside: func(worker.Init) (worker.Host, error) { made++; return &insideHost{}, nil },
	}}}})
	src := &list{}
	for _, op := range []string{"ok", "panics", "waits", "ok"} {
		src.tasks = append(src.tasks, &worker.Task{Case: worker.Case{ID: op, Op: op, Params: []byte("{}")},
			Deadline: deadlineOf(op)})
	}
	if err := p.Run(t.Context(), worker.Settings{}, src); err != nil {
		t.Fatal(err)
	}
	if len(src.ends) != 4 || made != 3 {
		t.Fatalf("%d ends, %d hosts", len(src.ends), made)
	}
	for _, o := range src.ends {
		switch o.Task.Case.Op {
		case "ok":
			if o.Failure != nil || len(o.Rows) != 1 {
				t.Errorf("ok: %+v", o)
			}
		case "panics":
			if o.Failure == nil || o.Failure.Message != "boom in panics" ||
				!strings.Contains(o.Failure.Traceback, "inside_test.go") {
				t.Errorf("panics: %+v", o.Failure)
			}
		case "waits":
			if o.Cause != worker.CauseHung {
				t.Errorf("waits: %+v", o)
			}
		}
	}
}

func deadlineOf(op string) time.Duration {
	if op == "waits" {
		return 20 * time.Millisecond
	}
	return 0
}

// TestInsideReportsStartFailure takes the reason that the host gives.
func TestInsideReportsStartFailure(t *testing.T) {
	t.Parallel()
	p := newPool(t, worker.PoolSpec{Slots: []worker.Slot{{Name: "w0", Device: -1, Spec: worker.Spec{
		Inside: func(worker.Init) (worker.Host, error) {
			return nil, &worker.Failure{Class: worker.ClassCollectorBug,
				Message: "no option of that name"}
		},
	}}}})
	err := p.Run(t.Context(), worker.Settings{},
		&list{tasks: []*worker.Task{{Case: worker.Case{ID: "a", Op: "ok", Params: []byte("{}")}}}})
	if err == nil || !strings.Contains(err.Error(), "no option of that name") {
		t.Errorf("%v", err)
	}
}
