package pyhost_test

import (
	"errors"
	"strings"
	"testing"

	"aicplan/cudaops/pyhost"
	"aicplan/cudaops/worker"
)

// TestQuestionsBeforeAndAfterHello routes collectors by version through the
// engine's own side of the pipe: one op asks before hello, two ask with their
// first case, while other cases wait.
func TestQuestionsBeforeAndAfterHello(t *testing.T) {
	t.Parallel()
	routes := []m{{"min": "2.0", "module": "collector.trtllm.collect_new"},
		{"min": "0.1", "module": "collector.trtllm.collect_gemm"}}
	binding := m{"versions": routes, "getter": "get_gemm_test_cases", "run": "run_gemm", "perf_filename": "gemm_perf.txt"}
	spec := func(ops m, answer func(worker.Question) (worker.Answer, error)) worker.Spec {
		path, args, err := pyhost.Command(python(t), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return worker.Spec{Path: path, Args: append([]string{path}, args...), Answer: answer,
			Init: worker.Init{Kind: "python", Slot: "w0", Device: -1, Ops: raw(t, ops),
				Options: hostSettings{CollectorRoot: testdata(t, "checkout")}.Options(nil)}}
	}
	asked := make(chan worker.Question, 8)
	answer := func(q worker.Question) (worker.Answer, error) {
		asked <- q
		q.Version = "0.0.1" // older than every route
		return pyhost.Answer(q)
	}
	_, err := worker.Launch(t.Context(), spec(m{"a": binding}, answer))
	var fail *worker.StartFailure
	if !errors.As(err, &fail) || !fail.Reported || fail.Failure.Class != worker.ClassUnsupportedConfig ||
		!strings.Contains(err.Error(), "the oldest route is for 0.1") {
		t.Fatalf("one op: %v", err) // nothing may have been asked
	}
	if q := <-asked; q.What != "route" || len(q.Minima) != 2 {
		t.Errorf("asked %+v", q)
	}
	_, err = worker.Launch(t.Context(), spec(m{"a": binding}, nil))
	if !errors.As(err, &fail) || !strings.Contains(err.Error(), "are not answered") {
		t.Errorf("without answers: %v", err)
	}

	p, err := worker.Launch(t.Context(), spec(m{"a": binding, "b": binding}, answer))
	if err != nil {
		t.Fatal(err)
	}
	for i, op := range []string{"a", "b", "a"} {
		if err := p.Send(worker.Case{Seq: int64(i + 1), ID: op, Op: op, Params: raw(t, m{})}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Shutdown(); err != nil {
		t.Fatal(err)
	}
	var seqs []int64
	for batch := range p.Events() {
		for _, ev := range batch {
			switch {
			case ev.Error != nil:
				seqs = append(seqs, ev.Error.Seq)
				if ev.Error.Class != worker.ClassUnsupportedConfig {
					t.Errorf("case %d: %+v", ev.Error.Seq, ev.Error.Failure)
				}
			case ev.Garbage != "":
				t.Errorf("garbage: %s", ev.Garbage)
			}
		}
	}
	if len(seqs) != 3 || seqs[0] != 1 || seqs[2] != 3 {
		t.Errorf("ended %v, want 1 2 3", seqs)
	}
}
