//go:build linux

package worker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"aicplan/cudaops/worker"
)

// restless is a host that leaves after every second case, and takes what it
// holds by then along.
type restless struct{ at int }

func (r *restless) Hello(context.Context) (worker.Hello, error) {
	return worker.Hello{Version: "1", Device: "d", Window: 3}, nil
}

// Configure implements worker.Host. The host has no settings.
func (*restless) Configure(worker.Init) error { return nil }

func (r *restless) Serve(_ context.Context, in <-chan worker.Case, out worker.Emitter) error {
	for c := range in {
		if r.at == 2 {
			return &worker.RestartError{Reason: "two are enough"}
		}
		r.at++
		out.Start(c.Seq)
		out.Result(c.Seq, []worker.Row{{"latency": 1}}, 0)
	}
	return nil
}

// oddWorker is the body of workers that end in ways of their own; false means
// that mode names none of them.
func oddWorker(mode string) bool {
	switch mode {
	case "restless":
		_ = worker.Serve(context.Background(), func(worker.Init) (worker.Host, error) { return new(restless), nil })
	case "refuses": // leaves at once, for ever
		_ = worker.Serve(context.Background(), func(worker.Init) (worker.Host, error) { return &restless{at: 2}, nil })
	case "unstarted": // crashes on the poisoned case before its start
		in, out := bufio.NewReader(os.NewFile(3, "in")), os.NewFile(4, "out")
		for {
			line, err := in.ReadString('\n')
			switch {
			case err != nil || strings.Contains(line, `"poison"`):
				os.Exit(9)
			case strings.Contains(line, `"init"`):
				fmt.Fprintf(out, "{\"type\":\"hello\",\"protocol\":%d,\"version\":\"1\",\"device\":\"d\",\"window\":2}\n",
					worker.ProtocolVersion)
			case strings.Contains(line, `"shutdown"`):
				os.Exit(0)
			default:
				_, rest, _ := strings.Cut(line, `"seq":`)
				seq, _, _ := strings.Cut(rest, ",")
				fmt.Fprintf(out, "{\"type\":\"start\",\"seq\":%s}\n{\"type\":\"result\",\"seq\":%s,\"rows\":[{\"latency\":1}],\"seconds\":0.1}\n", seq, seq)
			}
		}
	case "lingers": // waits for its instrument when it is asked to end
		in, out := bufio.NewReader(os.NewFile(3, "in")), os.NewFile(4, "out")
		fmt.Fprintf(out, "{\"type\":\"hello\",\"protocol\":%d,\"version\":\"1\",\"device\":\"d\",\"window\":1}\n", worker.ProtocolVersion)
		for {
			line, err := in.ReadString('\n')
			switch {
			case err != nil:
				os.Exit(0)
			case strings.Contains(line, `"shutdown"`):
				fmt.Fprintln(out, `{"type":"measure","what":"ready"}`)
			case strings.Contains(line, `"seq":`):
				_, rest, _ := strings.Cut(line, `"seq":`)
				seq, _, _ := strings.Cut(rest, ",")
				fmt.Fprintf(out, "{\"type\":\"start\",\"seq\":%s}\n{\"type\":\"result\",\"seq\":%s,\"rows\":[{\"latency\":1}],\"seconds\":0.1}\n", seq, seq)
			}
		}
	case "waits": // waits for its instrument after each case
		in, out := bufio.NewReader(os.NewFile(3, "in")), os.NewFile(4, "out")
		fmt.Fprintf(out, "{\"type\":\"hello\",\"protocol\":%d,\"version\":\"1\",\"device\":\"d\",\"window\":1}\n", worker.ProtocolVersion)
		next, waits := "", false
		for {
			line, err := in.ReadString('\n')
			if err != nil || strings.Contains(line, `"shutdown"`) {
				os.Exit(0)
			}
			if _, rest, ok := strings.Cut(line, `"seq":`); ok {
				next, _, _ = strings.Cut(rest, ",")
			}
			if waits = waits && !strings.Contains(line, `"measure"`); !waits && next != "" {
				fmt.Fprintf(out, "{\"type\":\"start\",\"seq\":%s}\n{\"type\":\"result\",\"seq\":%s,\"rows\":[{\"latency\":1}],\"seconds\":0.1}\n", next, next)
				fmt.Fprintln(out, `{"type":"measure","what":"ready"}`)
				next, waits = "", true
			}
		}
	case "ahead": // takes one case ahead; one case ends only when another one has
		in, out := bufio.NewReader(os.NewFile(3, "in")), os.NewFile(4, "out")
		fmt.Fprintf(out, "{\"type\":\"hello\",\"protocol\":%d,\"version\":\"1\",\"device\":\"d\",\"window\":16,\"ahead\":1}\n",
			worker.ProtocolVersion)
		for {
			line, err := in.ReadString('\n')
			if err != nil || strings.Contains(line, `"shutdown"`) {
				os.Exit(0)
			}
			_, rest, ok := strings.Cut(line, `"seq":`)
			if !ok {
				continue
			}
			seq, _, _ := strings.Cut(rest, ",")
			fmt.Fprintf(out, "{\"type\":\"start\",\"seq\":%s}\n", seq)
			switch pipe := os.Getenv("TEST_PIPE"); {
			case strings.Contains(line, `"waits"`):
				_, _ = os.ReadFile(pipe)
			case strings.Contains(line, `"wakes"`):
				_ = os.WriteFile(pipe, []byte("x"), 0o600)
			}
			fmt.Fprintf(out, "{\"type\":\"result\",\"seq\":%s,\"rows\":[{\"latency\":1}],\"seconds\":0.1}\n", seq)
		}
	case "batch": // w1 starts after w0 has started two cases, which end once w1 has one, or with a third one
		lines := make(chan string)
		go func() {
			in := bufio.NewReader(os.NewFile(3, "in"))
			for {
				line, err := in.ReadString('\n')
				if err != nil || strings.Contains(line, `"shutdown"`) {
					os.Exit(0)
				}
				lines <- line
			}
		}()
		out, pipe, late := os.NewFile(4, "out"), os.Getenv("TEST_PIPE"), strings.Contains(<-lines, `"w1"`)
		if late {
			_, _ = os.ReadFile(pipe)
		}
		fmt.Fprintf(out, "{\"type\":\"hello\",\"protocol\":%d,\"version\":\"1\",\"device\":\"d\",\"window\":16,\"ahead\":1}\n",
			worker.ProtocolVersion)
		var held []string
		other := make(chan struct{})
		for {
			select {
			case line := <-lines:
				_, rest, ok := strings.Cut(line, `"seq":`)
				if !ok {
					continue
				}
				seq, _, _ := strings.Cut(rest, ",")
				fmt.Fprintf(out, "{\"type\":\"start\",\"seq\":%s}\n", seq)
				held = append(held, seq)
				if late {
					_ = os.WriteFile(pipe+"2", []byte("x"), 0o600)
				} else if len(held) == 2 {
					_ = os.WriteFile(pipe, []byte("x"), 0o600)
					go func() { _, _ = os.ReadFile(pipe + "2"); close(other) }()
				}
				if !late && len(held) < 3 {
					continue
				}
			case <-other:
				other = nil
			}
			for _, seq := range held {
				fmt.Fprintf(out, "{\"type\":\"result\",\"seq\":%s,\"rows\":[{\"latency\":1}],\"seconds\":0.1}\n", seq)
			}
			held = nil
		}
	case "deaf": // never answers a case
		fmt.Fprintf(os.NewFile(4, "out"), "{\"type\":\"hello\",\"protocol\":%d,\"version\":\"1\",\"device\":\"d\",\"window\":2}\n", worker.ProtocolVersion)
		_, _ = io.Copy(io.Discard, os.NewFile(3, "in"))
	case "forges": // sends a result of a case that it holds and has not started
		in, out := bufio.NewReader(os.NewFile(3, "in")), os.NewFile(4, "out")
		fmt.Fprintf(out, "{\"type\":\"hello\",\"protocol\":%d,\"version\":\"1\",\"device\":\"d\",\"window\":2}\n",
			worker.ProtocolVersion)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				os.Exit(0)
			}
			if _, rest, ok := strings.Cut(line, `"seq":`); ok {
				seq, _, _ := strings.Cut(rest, ",")
				fmt.Fprintf(out, "{\"type\":\"result\",\"seq\":%s,\"rows\":[{\"latency\":666}],\"seconds\":0.1}\n", seq)
			}
		}
	case "repeats": // sends the result of the case before instead of that of its own
		in, out := bufio.NewReader(os.NewFile(3, "in")), os.NewFile(4, "out")
		fmt.Fprintf(out, "{\"type\":\"hello\",\"protocol\":%d,\"version\":\"1\",\"device\":\"d\",\"window\":1}\n",
			worker.ProtocolVersion)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				os.Exit(0)
			}
			var c worker.Case
			if json.Unmarshal([]byte(line), &c) == nil && c.Seq > 0 {
				fmt.Fprintf(out, "{\"type\":\"start\",\"seq\":%d}\n{\"type\":\"result\",\"seq\":%d,\"rows\":[{\"latency\":666}]}\n",
					c.Seq, max(1, c.Seq-1))
			}
		}
	case "forgets": // starts a case and leaves politely without its end
		fmt.Fprintf(os.NewFile(4, "out"), "{\"type\":\"hello\",\"protocol\":%d,\"version\":\"1\",\"device\":\"d\",\"window\":1}\n", worker.ProtocolVersion)
		in := bufio.NewReader(os.NewFile(3, "in"))
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				os.Exit(0)
			}
			if _, rest, ok := strings.Cut(line, `"seq":`); ok {
				seq, _, _ := strings.Cut(rest, ",")
				fmt.Fprintf(os.NewFile(4, "out"), "{\"type\":\"start\",\"seq\":%s}\n{\"type\":\"bye\",\"restart\":\"bored\"}\n",
					seq)
				os.Exit(0)
			}
		}
	case "tells": // sends rows and exits; for case 1 rows of a case that it does not hold
		fmt.Fprintf(os.NewFile(4, "out"), "{\"type\":\"hello\",\"protocol\":%d,\"version\":\"1\",\"device\":\"d\",\"window\":1}\n", worker.ProtocolVersion)
		in := bufio.NewReader(os.NewFile(3, "in"))
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				os.Exit(0)
			}
			if _, rest, ok := strings.Cut(line, `"seq":`); ok {
				seq, _, _ := strings.Cut(rest, ",")
				about := seq
				if strings.Contains(line, `"id":"1"`) {
					about = "77"
				}
				fmt.Fprintf(os.NewFile(4, "out"), "{\"type\":\"start\",\"seq\":%s}\n{\"type\":\"rows\",\"seq\":%s,\"rows\":[{\"latency\":1},{\"latency\":2}]}\n", seq, about)
				if strings.Contains(line, `"id":"2"`) {
					fmt.Fprintf(os.NewFile(4, "out"), "{\"type\":\"start\",\"seq\":%s,\"example\":true}\n", about)
				}
				if strings.Contains(line, `"id":"4"`) {
					fmt.Fprintf(os.NewFile(4, "out"), "{\"type\":\"start\",\"seq\":%s,\"again\":true}\n", about)
				}
				fmt.Fprintf(os.NewFile(4, "out"), "{\"type\":\"rows\",\"seq\":%s,\"rows\":[{\"latency\":3}]}\n", about)
				if strings.Contains(line, `"id":"3"`) {
					fmt.Fprintf(os.NewFile(4, "out"), "{\"type\":\"start\",\"seq\":%[1]s,\"example\":true}\n"+
						"{\"type\":\"start\",\"seq\":%[1]s}\n", about)
				}
				os.Exit(7)
			}
		}
	default:
		return false
	}
	return true
}

func runOdd(t *testing.T, mode string, cases int, poison bool) (*list, error) {
	t.Helper()
	pool := newPool(t, worker.PoolSpec{Slots: testSlots(t, 1, 1, "TEST_WORKER="+mode)})
	src := &list{}
	for n := range cases {
		deadline := long
		if mode == "deaf" {
			deadline = short
		}
		src.add(n, "none", deadline)
	}
	if poison {
		src.add(99, "poison", long)
	}
	return src, pool.Run(t.Context(), worker.Settings{}, src)
}

func TestRequestedRestartCostsNoAttempt(t *testing.T) {
	src, err := runOdd(t, "restless", 11, false)
	if err != nil || len(src.ends) != 11 {
		t.Fatalf("%d ends, %v", len(src.ends), err)
	}
	pids := map[int]bool{}
	for _, o := range src.ends {
		if o.Failure != nil {
			t.Errorf("case %s: %+v", o.Task.Case.ID, o.Failure)
		}
		pids[o.Hello.Pid] = true
	}
	if len(pids) != 6 {
		t.Errorf("%d processes for 11 cases", len(pids))
	}
}

func TestEndlessRestartsGiveUpSlot(t *testing.T) {
	src, err := runOdd(t, "refuses", 3, false)
	if !errors.Is(err, worker.ErrNoWorkers) || !strings.Contains(err.Error(), "two are enough") || len(src.ends) != 0 {
		t.Errorf("%d ends, %v", len(src.ends), err)
	}
}

func TestCaseThatKillsWorkersBeforeStartFails(t *testing.T) {
	src, err := runOdd(t, "unstarted", 5, true)
	if err != nil || len(src.ends) != 6 {
		t.Fatalf("%d ends, %v", len(src.ends), err)
	}
	for _, o := range src.ends {
		if bad := o.Task.Case.ID == "99"; (o.Failure != nil) != bad ||
			(bad && (o.Cause != worker.CauseDied || o.Failure.Exception != "exit status 9")) {
			t.Errorf("case %s: cause %d, %+v", o.Task.Case.ID, o.Cause, o.Failure)
		}
	}
}

func TestWorkerThatStartsNoCaseTimesOut(t *testing.T) {
	src, err := runOdd(t, "deaf", 2, false)
	if err != nil || len(src.ends) != 2 {
		t.Fatalf("%d ends, %v", len(src.ends), err)
	}
	for _, o := range src.ends {
		if o.Cause != worker.CauseHung || !strings.Contains(o.Failure.Message, "did not start it within") {
			t.Errorf("case %s: cause %d, %+v", o.Task.Case.ID, o.Cause, o.Failure)
		}
	}
}

func TestByeDuringCaseFailsCase(t *testing.T) {
	src, err := runOdd(t, "forgets", 1, false)
	if err != nil || len(src.ends) != 1 {
		t.Fatalf("%d ends, %v", len(src.ends), err)
	}
	if o := src.ends[0]; o.Cause != worker.CauseDied || !strings.Contains(o.Failure.Message, "in the middle of its work") {
		t.Errorf("cause %d, %+v", o.Cause, o.Failure)
	}
}

// TestRowsBeforeCrashAreKept checks that rows which a worker sent before a crash belong to its case, and that rows
// which break the protocol are dropped. Those from before an example, of it, and of an earlier begin of the case do not.
func TestRowsBeforeCrashAreKept(t *testing.T) {
	src, err := runOdd(t, "tells", 5, false)
	if err != nil || len(src.ends) != 5 {
		t.Fatalf("%d ends, %v", len(src.ends), err)
	}
	for _, o := range src.ends {
		want, cause := "[map[latency:1] map[latency:2] map[latency:3]]", worker.CauseDied
		if o.Task.Case.ID == "1" {
			want, cause = "[]", worker.CauseGarbage
		}
		if o.Task.Case.ID == "2" || o.Task.Case.ID == "4" {
			want = "[map[latency:3]]"
		}
		if o.Task.Case.ID == "3" {
			want = "[]"
		}
		if o.Example != (o.Task.Case.ID == "2") {
			t.Errorf("case %s: example %v", o.Task.Case.ID, o.Example)
		}
		if o.Cause != cause || fmt.Sprint(o.Rows) != want {
			t.Errorf("case %s: cause %d, %+v, rows %v, want %s", o.Task.Case.ID, o.Cause, o.Failure, o.Rows, want)
		}
	}
}

// waiting is an instrument whose workers always wait.
type waiting struct{}

func (waiting) Receive([]byte) (bool, error) { return true, nil }
func (waiting) Given(int, int)               {}
func (waiting) Close()                       {}

// given is an instrument that records what it learns of its worker, and then ends the worker's wait.
type given struct {
	waiting
	send    func(any) error
	reports [][2]int
}

func (g *given) Given(wait, cases int) {
	g.reports = append(g.reports, [2]int{wait, cases})
	_ = g.send(map[string]string{"type": "measure"}) // the worker may have ended
}

// TestInstrumentLearnsWhatAWorkerWasGiven: when a worker begins to wait, the result before is processed and the next
// case is given, and then its instrument gets the number of cases.
func TestInstrumentLearnsWhatAWorkerWasGiven(t *testing.T) {
	slots, got := testSlots(t, 1, 1, "TEST_WORKER=waits"), &given{}
	slots[0].Spec.Instrument = func(send func(any) error) worker.Measurer {
		got.send = send
		return got
	}
	pool := newPool(t, worker.PoolSpec{Slots: slots})
	src := &list{}
	for n := range 3 {
		src.add(n, "none", long)
	}
	if err := pool.Run(t.Context(), worker.Settings{}, src); err != nil {
		t.Fatal(err)
	}
	// The run ends with the third result, before or after the wait that follows.
	if want := [][2]int{{1, 1}, {2, 1}}; len(got.reports) < 2 || !slices.Equal(got.reports[:2], want) {
		t.Errorf("%v, want %v", got.reports, want)
	}
}

// TestWorkerThatWaitsAfterItsShutdownIsKilled: a status that crosses the shutdown must not remove its deadline.
func TestWorkerThatWaitsAfterItsShutdownIsKilled(t *testing.T) {
	slots := testSlots(t, 1, 1, "TEST_WORKER=lingers")
	slots[0].Spec.Instrument = func(func(any) error) worker.Measurer { return waiting{} }
	pool := newPool(t, worker.PoolSpec{Slots: slots, RecycleAfter: 1, ShutdownGrace: short})
	src := &list{}
	for n := range 2 {
		src.add(n, "none", long)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := pool.Run(ctx, worker.Settings{}, src); err != nil {
		t.Fatal(err)
	}
	if len(src.ends) != 2 || src.ends[1].Failure != nil {
		t.Errorf("%+v", src.ends)
	}
}
