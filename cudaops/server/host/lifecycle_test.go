package host

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"aicplan/cudaops/worker"
)

// within calls try with increasing deadlines up to a minute, so that the speed of the machine does not
// matter. try returns an error text, or "" on success.
func within(t *testing.T, limit time.Duration, try func(limit time.Duration) (wrong string)) {
	t.Helper()
	for {
		wrong := try(limit)
		if wrong == "" {
			return
		}
		if limit >= time.Minute {
			t.Fatal(wrong)
		}
		limit = min(4*limit, time.Minute)
	}
}

func TestFaultsOfServers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault       string
		within      time.Duration
		class, want string
		log         string
	}{
		{"dies at once", time.Minute, worker.ClassFrameworkBug,
			"the server ended with exit status 3 before it was ready; its log ends with ",
			"RuntimeError: the weights are broken"},
		{"never ready", 300 * time.Millisecond, worker.ClassTimeout, "the server was not ready after ", "compiling for ever"},
		{"no completion", 500 * time.Millisecond, worker.ClassTimeout, "a completion: 500 Internal Server Error", ""},
		{"dies in the middle", time.Minute, worker.ClassFrameworkBug,
			"the server ended with exit status 7 in the middle of the load", "CUDA error: an illegal memory access"},
		{"dies slowly", time.Minute, worker.ClassFrameworkBug,
			"the server ended with exit status 7 in the middle of the load", "CUDA error: an illegal memory access"},
		{"dies slowly in the middle", time.Minute, worker.ClassFrameworkBug,
			"the server ended with exit status 7 in the middle of the load", "CUDA error: an illegal memory access"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			var b *bench
			var e *said
			within(t, c.within, func(limit time.Duration) string {
				b = newBench(t, c.fault)
				b.options["ready"] = map[string]any{"within": limit.String()}
				e = b.run(t, `{"tensor_parallel_size": 1}`, `{"tensor_parallel_size": 1, "batch_size": 4}`)
				f := e.failures[1]
				if f.Class != c.class || !strings.Contains(f.Message, c.want) || !strings.Contains(f.Message, c.log) {
					return fmt.Sprintf("%+v\nwant %s with %q and %q", f, c.class, c.want, c.log)
				}
				return ""
			})
			if strings.HasPrefix(c.fault, "dies") && c.fault != "dies at once" {
				if len(b.started(t)) != 2 {
					t.Errorf("the next case did not start it again: %q", b.started(t))
				}
			} else if len(b.started(t)) != 1 || !strings.Contains(e.failures[2].Message, "did not start for the case before") {
				t.Errorf("a server that does not start was started %d times: %+v", len(b.started(t)), e.failures[2])
			}
		})
	}
}

// TestRefusingServers checks that permanent refusals fail at once and temporary ones are retried.
func TestRefusingServers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		model  string
		class  string
		want   []string
	}{
		{400, "m", worker.ClassCollectorBug,
			[]string{"the server is up and refuses the request, ", ": a completion: 400 Bad Request: "}},
		{401, "m", worker.ClassCollectorBug, []string{"the server is up and refuses the request, "}},
		{404, "m", worker.ClassCollectorBug,
			[]string{"404 Not Found: ", `; it serves mock, and model of the runtime is "m"`}},
		{404, "mock", worker.ClassTimeout, []string{"the server was not ready after ", "a completion: 404 Not Found: "}},
		{429, "m", worker.ClassTimeout, []string{"the server was not ready after "}},
		{503, "m", worker.ClassTimeout, []string{"the server was not ready after "}},
	} {
		t.Run(fmt.Sprint(c.status, " ", c.model), func(t *testing.T) {
			t.Parallel()
			limit := 2 * time.Minute
			if c.class == worker.ClassTimeout {
				limit = time.Second
			}
			within(t, limit, func(limit time.Duration) string {
				b := newBench(t, "no completion", "--status", fmt.Sprint(c.status))
				b.steady = time.Millisecond
				b.options["model"], b.options["ready"] = c.model, map[string]any{"within": limit.String()}
				f := b.run(t, `{"tensor_parallel_size": 1}`).failures[1]
				for _, w := range c.want {
					if f.Class != c.class || !strings.Contains(f.Message, w) {
						return fmt.Sprintf("%+v\nwant %s with %q", f, c.class, w)
					}
				}
				return ""
			})
		})
	}
}

// TestServerWithoutItsPort checks that the failure explains the missing port.
func TestServerWithoutItsPort(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	command := b.options["command"].([]any)
	command[slices.Index(command, any("{port}"))] = "0"
	b.options["ready"] = map[string]any{"within": "100ms"}
	if f := b.run(t, `{"tensor_parallel_size": 1}`).failures[1]; f.Class != worker.ClassTimeout ||
		!strings.Contains(f.Message, "has {port}, and port is not set") {
		t.Errorf("%+v", f)
	}
}

// TestRefusingServerIsRestarted checks that a server that failed a case but has not ended yet is
// restarted for the next case.
func TestRefusingServerIsRestarted(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]struct{ failure, log string }{
		"refuses in the middle": {"failed requests of the load and does not answer any more: ", ""},
		"refuses the load": {"", "failed the case before and does not answer any more, so it is ended and started " +
			"again: "},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, fault)
			b.again = 50 * time.Millisecond
			e := b.run(t, `{"tensor_parallel_size": 1}`, `{"tensor_parallel_size": 1, "batch_size": 4}`)
			if len(b.started(t)) != 2 {
				t.Errorf("the next case did not start it again: %q", b.started(t))
			}
			if f := e.failures[1]; f.Message == "" || !strings.Contains(f.Message, want.failure) ||
				!strings.Contains(e.log(), want.log) {
				t.Errorf("%+v\n%s", f, e.log())
			}
		})
	}
}

// TestRecoveredServerIsKept checks that a server is kept if it responds again after failed requests
// of the first case.
func TestRecoveredServerIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, "resets some")
	e := b.run(t, `{"tensor_parallel_size": 1}`, `{"tensor_parallel_size": 1}`)
	if e.rows[1] == nil || fmt.Sprint(e.rows[1]["failed"]) == "0" || e.rows[2] == nil || len(b.started(t)) != 1 {
		t.Errorf("%d starts, %+v\n%s", len(b.started(t)), e.failures, e.log())
	}
}

func TestServerThatIgnoresTheSignalIsKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t, "ignores SIGTERM")
	b.options["stop"] = map[string]any{"within": "200ms"}
	e := b.run(t, `{"tensor_parallel_size": 1}`)
	if e.rows[1] == nil {
		t.Fatalf("%+v", e.failures)
	}
	if !strings.Contains(e.log(), "did not end within 200ms of SIGTERM and was killed") {
		t.Errorf("the kill is not logged:\n%s", e.log())
	}
}

func TestOrphansOfAServerAreKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t, "children")
	b.options["stop"] = map[string]any{"within": "1s"}
	e := b.run(t, `{"tensor_parallel_size": 1}`)
	if e.rows[1] == nil {
		t.Fatalf("%+v", e.failures)
	}
	// The signal ends the child in the process group. The other one has left it.
	if !strings.Contains(e.log(), "sleep 600") {
		t.Errorf("the log does not name the orphan:\n%s", e.log())
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := newBench(t, "")
	b.options["port"] = l.Addr().(*net.TCPAddr).Port
	e := b.run(t, `{"tensor_parallel_size": 1}`)
	if f := e.failures[1]; f.Class != worker.ClassResourceIssue ||
		!strings.Contains(f.Message, "port "+strconv.Itoa(l.Addr().(*net.TCPAddr).Port)+" of 127.0.0.1 is in use") {
		t.Errorf("%+v", f)
	}
}
