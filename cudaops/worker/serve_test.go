package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"
)

// session drives ServeOn over pipes as an engine would.
type session struct {
	t    *testing.T
	to   *io.PipeWriter
	from *lineReader
	done chan error
}

func newSession(t *testing.T, init Init, host func(Init) (Host, error)) *session {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s := &session{t: t, to: inW, from: newLineReader(outR, MaxLine), done: make(chan error, 1)}
	go func() {
		err := ServeOn(t.Context(), inR, outW, host)
		outW.Close()
		inR.Close()
		s.done <- err
	}()
	t.Cleanup(func() { inW.Close(); outR.Close() })
	init.Type, init.Protocol = TypeInit, max(init.Protocol, ProtocolVersion)
	s.send(init)
	return s
}

func (s *session) send(msg any) {
	s.t.Helper()
	line, err := encodeLine(msg)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.to.Write(line); err != nil {
		s.t.Fatalf("write %T: %v", msg, err)
	}
}

func (s *session) cases(seqs ...int64) {
	s.t.Helper()
	for _, n := range seqs {
		s.send(Case{Type: TypeCase, Seq: n, ID: "c", Op: "op", Params: json.RawMessage(`{"n":1}`)})
	}
}

// read returns the next message as type, seq and whole line.
func (s *session) read() (string, int64, string) {
	s.t.Helper()
	line, err := s.from.next()
	if err != nil {
		s.t.Fatalf("read: %v", err)
	}
	env, err := openEnvelope(line)
	if err != nil {
		s.t.Fatal(err)
	}
	if env.Seq == nil {
		return env.Type, 0, string(line)
	}
	return env.Type, *env.Seq, string(line)
}

func (s *session) want(typ string, seq int64, parts ...string) {
	s.t.Helper()
	gotType, gotSeq, line := s.read()
	if gotType != typ || gotSeq != seq {
		s.t.Fatalf("got %s %d (%s), want %s %d", gotType, gotSeq, line, typ, seq)
	}
	for _, p := range parts {
		if !strings.Contains(line, p) {
			s.t.Fatalf("%s does not contain %q", line, p)
		}
	}
}

func (s *session) end() error {
	s.t.Helper()
	for {
		if _, err := s.from.next(); err != nil {
			break
		}
	}
	return <-s.done
}

func about(context.Context) (Hello, error) {
	return Hello{Version: "1.0", Device: "test", Ops: []string{"op"}}, nil
}

func sequential(run func(c Case) ([]Row, error)) func(Init) (Host, error) {
	return func(Init) (Host, error) {
		return &Sequential{About: about, Run: func(_ context.Context, c Case) ([]Row, error) { return run(c) }}, nil
	}
}

func TestServeSequential(t *testing.T) {
	s := newSession(t, Init{}, sequential(func(c Case) ([]Row, error) {
		switch c.Seq {
		case 1:
			return []Row{{"latency": 1.5}}, nil
		case 2:
			return nil, &Failure{Class: ClassResourceIssue, Exception: "OOM", Message: "no memory"}
		case 3:
			panic("boom")
		case 4:
			return []Row{{"latency": math.NaN(), "p10": math.Inf(-1)}}, nil
		default:
			return []Row{{"latency": make(chan int)}}, nil
		}
	}))
	s.want(TypeHello, 0, `"version":"1.0"`, `"window":1`, `"configure":true`)
	for _, c := range []struct {
		seq   int64
		typ   string
		parts []string
	}{
		{1, TypeResult, []string{`"latency":1.5`}},
		{2, TypeError, []string{ClassResourceIssue, `"exception":"OOM"`, "no memory"}},
		{3, TypeError, []string{`"exception":"panic"`, "boom", "TestServeSequential"}},
		{4, TypeResult, []string{`"latency":"NaN"`, `"p10":"-Infinity"`}},
		{5, TypeError, []string{ClassCollectorBug, "cannot be sent"}},
	} {
		s.cases(c.seq)
		s.want(TypeStart, c.seq)
		s.want(c.typ, c.seq, c.parts...)
	}
	s.send(map[string]string{"type": TypeShutdown})
	typ, _, line := s.read()
	if typ != TypeBye || strings.Contains(line, "restart") {
		t.Fatalf("got %s, want a bye without restart", line)
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
}

// windowHost collects cases until it has n, then answers in reverse order and
// panics on the case panicOn after its start.
type windowHost struct {
	n       int
	panicOn int64
	pending []Case
	inits   []Init
	settled func(Init) error
}

func (h *windowHost) Hello(context.Context) (Hello, error) {
	return Hello{Version: "1", Device: "d", Window: h.n}, nil
}

func (h *windowHost) Configure(i Init) error {
	h.inits = append(h.inits, i)
	return h.settled(i)
}

func (h *windowHost) Serve(_ context.Context, in <-chan Case, out Emitter) error {
	h.pending = nil
	for c := range in {
		h.pending = append(h.pending, c)
		if len(h.pending) == h.n {
			h.flush(out)
		}
	}
	h.flush(out)
	return nil
}

func (h *windowHost) flush(out Emitter) {
	for len(h.pending) > 0 {
		last := h.pending[len(h.pending)-1]
		out.Start(last.Seq)
		if last.Seq == h.panicOn {
			panic("host fell over")
		}
		h.pending = h.pending[:len(h.pending)-1]
		out.Result(last.Seq, []Row{{"latency": 1}}, 0.25)
	}
}

func TestConfigureBetweenCases(t *testing.T) {
	h := &windowHost{n: 1, settled: func(i Init) error {
		if string(i.Measure) == `"bad"` {
			return errors.New("no such setting")
		}
		return nil
	}}
	s := newSession(t, Init{Measure: json.RawMessage(`{"a":1}`)}, func(Init) (Host, error) { return h, nil })
	s.want(TypeHello, 0)
	s.cases(1)
	s.want(TypeStart, 1)
	s.want(TypeResult, 1)
	s.send(Configure{Type: TypeConfigure, Measure: json.RawMessage(`{"a":2}`), Seed: 7})
	s.cases(2)
	s.want(TypeStart, 2)
	s.want(TypeResult, 2)
	s.send(Configure{Type: TypeConfigure, Measure: json.RawMessage(`"bad"`)})
	s.want(TypeBye, 0, "no such setting")
	if err := s.end(); err == nil {
		t.Fatal("a refused configure ended without an error")
	}
	if len(h.inits) != 2 || string(h.inits[0].Measure) != `{"a":2}` || h.inits[0].Seed != 7 {
		t.Errorf("the host saw %+v", h.inits)
	}
}

// TestWaitingHostEnds: one that waits for nothing but its next case ends when the
// engine is gone.
func TestWaitingHostEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where it does not, all goroutines wait
		s := newSession(t, Init{}, func(Init) (Host, error) { return &windowHost{n: 3}, nil })
		s.want(TypeHello, 0)
		s.to.Close()
		if err := <-s.done; !errors.Is(err, errEngineGone) {
			t.Error(err)
		}
	})
}

func TestServeRestartAndStartErrors(t *testing.T) {
	t.Run("restart", func(t *testing.T) {
		s := newSession(t, Init{}, sequential(func(Case) ([]Row, error) {
			return nil, &Failure{Message: "illegal address", Fatal: true}
		}))
		s.want(TypeHello, 0)
		s.cases(1)
		s.want(TypeStart, 1)
		s.want(TypeError, 1, `"fatal":true`)
		s.want(TypeBye, 0, `"restart":"illegal address"`)
		if err := s.end(); err != nil {
			t.Errorf("a wanted restart is no error: %v", err)
		}
	})
	t.Run("no framework", func(t *testing.T) {
		s := newSession(t, Init{}, func(Init) (Host, error) {
			return nil, &Failure{Class: ClassCollectorBug, Message: "no module named torch"}
		})
		s.want(TypeHello, 0, `"error":{"class":"collector_bug"`, "no module named torch")
		if err := s.end(); err == nil {
			t.Error("want an error")
		}
	})
	t.Run("protocol", func(t *testing.T) {
		s := newSession(t, Init{Protocol: ProtocolVersion + 1}, sequential(nil))
		s.want(TypeHello, 0, "version 2 of the worker protocol")
		if err := s.end(); err == nil {
			t.Error("want an error")
		}
	})
	t.Run("engine gone", func(t *testing.T) {
		s := newSession(t, Init{}, sequential(nil))
		s.want(TypeHello, 0)
		s.to.Close()
		if err := s.end(); !errors.Is(err, errEngineGone) {
			t.Errorf("got %v", err)
		}
	})
}

func TestLineReader(t *testing.T) {
	long := strings.Repeat("x", 200)
	r := newLineReader(bufio.NewReaderSize(strings.NewReader("a\n\n"+long+"\nend"), 16), 250)
	for _, want := range []string{"a", "", long} {
		got, err := r.next()
		if err != nil || string(got) != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
	if _, err := r.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an unfinished line gave %v", err)
	}
	r = newLineReader(strings.NewReader(long+"\n"), 100)
	if _, err := r.next(); err == nil || !strings.Contains(err.Error(), "more than 100 bytes") {
		t.Errorf("a long line gave %v", err)
	}
}

func FuzzOpenEnvelope(f *testing.F) {
	f.Add([]byte(`{"type":"result","seq":1,"rows":[]}`))
	f.Add([]byte("\xff{"))
	f.Fuzz(func(t *testing.T, line []byte) {
		env, err := openEnvelope(line)
		if err == nil && env.Type == "" {
			t.Fatal("accepted a message without a type")
		}
		var r CaseResult
		if decodeMessage(line, &r) == nil {
			for _, row := range r.Rows {
				for _, v := range row {
					if _, ok := v.(float64); ok {
						t.Fatal("a number lost its digits")
					}
				}
			}
		}
	})
}
