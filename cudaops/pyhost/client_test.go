package pyhost_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"aicplan/cudaops/instrument"
	"aicplan/cudaops/pyhost"
	"aicplan/cudaops/pyhost/pyhosttest"
	"aicplan/cudaops/worker"
)

func TestMain(m *testing.M) { os.Exit(pyhosttest.Run(m)) }

// python returns the interpreter for tests, or skips.
func python(t testing.TB) string {
	t.Helper()
	return pyhosttest.Python(t, t.TempDir())
}

// patience is how long one worker of a test may live. A busy machine may need a minute
// for the imports of a few of them.
const patience = 5 * time.Minute

// client is the engine's side of one worker, reduced to what tests need.
type client struct {
	t      testing.TB
	cmd    *exec.Cmd
	in     io.WriteCloser // to the worker
	out    *bufio.Reader  // from the worker
	log    *syncBuffer
	sends  sync.Mutex
	meter  worker.Measurer
	seq    int64
	logs   []worker.Log
	told   []worker.Row // before the end of their case
	again  int          // cases that have begun again
	exited bool
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// spawn starts a worker and sends it nothing.
func spawn(t testing.TB, env ...string) *client {
	t.Helper()
	python := python(t)
	return spawnCommand(t, func(dir string) (string, []string, error) { return pyhost.Command(python, dir) }, env...)
}

// spawnCommand starts a worker with the command that make returns.
func spawnCommand(t testing.TB, make func(dir string) (string, []string, error), env ...string) *client {
	t.Helper()
	path, args, err := make(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, in: inW, out: bufio.NewReader(outR), log: &syncBuffer{}}
	c.meter = instrument.New(instrument.Options{}).Join(c.write)
	c.cmd = exec.Command(path, args...)
	c.cmd.ExtraFiles = []*os.File{inR, outW}
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	c.cmd.Dir = t.TempDir()
	c.cmd.Env = append(os.Environ(), worker.EnvFDIn+"=3", worker.EnvFDOut+"=4", "PYTHONDONTWRITEBYTECODE=1")
	c.cmd.Env = append(c.cmd.Env, env...)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inR.Close()
	outW.Close()
	// A worker that never answers fails its test instead of holding it.
	watchdog := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
	t.Cleanup(func() {
		c.meter.Close()
		watchdog.Stop()
		inW.Close()
		if !c.exited {
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
		outR.Close()
		if t.Failed() {
			t.Logf("worker's log:\n%s", c.log.String())
		}
	})
	return c
}

// start spawns a worker, sends init and returns its hello.
func start(t testing.TB, init worker.Init, env ...string) (*client, worker.Hello) {
	t.Helper()
	c := spawn(t, env...)
	init.Type, init.Protocol = worker.TypeInit, worker.ProtocolVersion
	if init.Kind == "" {
		init.Kind, init.Device, init.Slot = "python", -1, "w0"
	}
	c.send(init)
	var hello worker.Hello
	c.next(worker.TypeHello, &hello)
	return c, hello
}

func (c *client) send(msg any) {
	c.t.Helper()
	if err := c.write(msg); err != nil {
		c.t.Fatalf("writing to the worker: %v", err)
	}
}

func (c *client) write(msg any) error {
	data, err := json.Marshal(msg)
	if err != nil {
		return err
	}
	c.sends.Lock()
	defer c.sends.Unlock()
	_, err = c.in.Write(append(data, '\n'))
	return err
}

// next decodes the next message that is no log line; its type must be one of
// want (separated by |). It returns the type.
func (c *client) next(want string, dst any) string {
	c.t.Helper()
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			c.t.Fatalf("waiting for %s: %v", want, err)
		}
		var head struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(line, &head); err != nil {
			c.t.Fatalf("not a message: %q", line)
		}
		if head.Type == worker.TypeLog && want != worker.TypeLog {
			var l worker.Log
			if err := json.Unmarshal(line, &l); err != nil {
				c.t.Fatal(err)
			}
			c.logs = append(c.logs, l)
			continue
		}
		if head.Type == worker.TypeRows && want != worker.TypeRows {
			var m worker.Rows
			if err := json.Unmarshal(line, &m); err != nil {
				c.t.Fatal(err)
			}
			c.told = append(c.told, m.Rows...)
			continue
		}
		if head.Type == worker.TypeMeasure {
			if _, err := c.meter.Receive(line); err != nil {
				c.t.Fatalf("%v: %s", err, line)
			}
			continue
		}
		if head.Type == worker.TypeCode && want != worker.TypeCode {
			continue
		}
		if head.Type == worker.TypeStart && want != worker.TypeStart {
			var s worker.Start
			if err := json.Unmarshal(line, &s); err != nil {
				c.t.Fatal(err)
			}
			if s.Again {
				c.again++
			}
			continue // a case is started again at every visit
		}
		if head.Type == worker.TypeAsk {
			var q worker.Question
			if err := json.Unmarshal(line, &q); err != nil {
				c.t.Fatal(err)
			}
			a, err := pyhost.Answer(q)
			if err != nil {
				a.Error = err.Error()
			}
			a.Type = worker.TypeAnswer
			c.send(a)
			continue
		}
		for _, w := range strings.Split(want, "|") {
			if head.Type == w {
				if err := json.Unmarshal(line, dst); err != nil {
					c.t.Fatalf("%s: %v: %s", w, err, line)
				}
				return head.Type
			}
		}
		c.t.Fatalf("want %s, got %s", want, line)
	}
}

// answer is how a case ended.
type answer struct {
	worker.CaseResult
	Failure *worker.Failure
}

// submit sends a case without waiting for it.
func (c *client) submit(op string, params, sweep any) int64 {
	c.t.Helper()
	c.seq++
	m := worker.Case{Type: worker.TypeCase, Seq: c.seq, ID: op + "-case", Op: op, Params: raw(c.t, params)}
	if sweep != nil {
		m.Sweep = raw(c.t, sweep)
	}
	c.send(m)
	return c.seq
}

// await reads one case's start and its end.
func (c *client) await(seq int64) answer {
	c.t.Helper()
	var s worker.Start
	c.next(worker.TypeStart, &s)
	if s.Seq != seq {
		c.t.Fatalf("start of case %d, want %d", s.Seq, seq)
	}
	var end struct {
		worker.CaseResult
		worker.Failure
	}
	typ := c.next(worker.TypeResult+"|"+worker.TypeError, &end)
	if end.Seq != seq {
		c.t.Fatalf("end of case %d, want %d", end.Seq, seq)
	}
	a := answer{CaseResult: end.CaseResult}
	if typ == worker.TypeError {
		a.Failure = &end.Failure
	}
	return a
}

// run measures one case.
func (c *client) run(op string, params, sweep any) answer {
	c.t.Helper()
	return c.await(c.submit(op, params, sweep))
}

// rows measures one case that must succeed.
func (c *client) rows(op string, params, sweep any) []worker.Row {
	c.t.Helper()
	a := c.run(op, params, sweep)
	if a.Failure != nil {
		c.t.Fatalf("%s: %s: %s\n%s", op, a.Failure.Exception, a.Failure.Message, a.Failure.Traceback)
	}
	return a.Rows
}

// fails measures one case that must fail.
func (c *client) fails(op string, params any) worker.Failure {
	c.t.Helper()
	a := c.run(op, params, nil)
	if a.Failure == nil {
		c.t.Fatalf("%s %v gave rows: %v", op, params, a.Rows)
	}
	return *a.Failure
}

// shutdown ends the worker and returns its last words.
func (c *client) shutdown() worker.Bye {
	c.t.Helper()
	c.send(map[string]string{"type": worker.TypeShutdown})
	return c.bye()
}

// bye reads the worker's goodbye and waits for its end.
func (c *client) bye() worker.Bye {
	c.t.Helper()
	var b worker.Bye
	c.next(worker.TypeBye, &b)
	c.wait()
	return b
}

// wait waits for the process and returns its exit code (-1: a signal).
func (c *client) wait() int {
	c.t.Helper()
	c.exited = true
	err := c.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return 0
}

func raw(t testing.TB, v any) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func testdata(t testing.TB, parts ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"testdata"}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

type m = map[string]any

// hostSettings are options of a runtime.
type hostSettings struct {
	Package, Requires, CollectorRoot, WorkDir string
	Path                                      []string
	Verify                                    bool
}

// Options returns the options of an init message, added to extra.
func (s hostSettings) Options(extra m) m {
	out := m{}
	maps.Copy(out, extra)
	for k, v := range map[string]string{
		"package": s.Package, "requires": s.Requires, "collector_root": s.CollectorRoot, "workdir": s.WorkDir,
	} {
		if v != "" {
			out[k] = v
		}
	}
	if len(s.Path) > 0 {
		out["path"] = s.Path
	}
	if s.Verify {
		out["verify"] = true
	}
	return out
}
