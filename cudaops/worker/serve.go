package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"aicplan/sink/base/proc"
)

// Serve runs the worker's side of the protocol on the descriptors in the environment until
// the engine shuts it down. It creates the host after it has received init. The error has been
// reported to the engine; the process should exit with a non-zero status.
func Serve(ctx context.Context, host func(Init) (Host, error)) error {
	in, err := inherited(EnvFDIn)
	if err != nil {
		return err
	}

	defer in.Close()
	out, err := inherited(EnvFDOut)
	if err != nil {
		return err
	}

	defer out.Close()
	return ServeOn(ctx, in, out, host)
}

func inherited(name string) (*os.File, error) {
	fd, err := strconv.Atoi(os.Getenv(name))
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s is not a file descriptor: workers are started by aicplan, not by hand", name)
	}

	// Processes of the host must not keep the engine's pipe open.
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), name), nil
}

// ServeStandard is Serve on standard input and output, for workers that are started by a
// launcher. Further output of the process goes to standard error. It sets the environment
// variables of init, because a launcher may not pass them on.
func ServeStandard(ctx context.Context, host func(Init) (Host, error)) error {
	in, out, err := proc.TakeStandard()
	if err != nil {
		return fmt.Errorf("standard input and output: %w", err)
	}

	defer in.Close()
	defer out.Close()
	return ServeOn(ctx, in, out, func(init Init) (Host, error) {
		for name, value := range init.Env {
			if err := os.Setenv(name, value); err != nil {
				return nil, fmt.Errorf("env %s: %w", name, err)
			}
		}

		return host(init)
	})
}

// ServeOn is Serve on any pair of streams.
func ServeOn(ctx context.Context, in io.Reader, out io.Writer, host func(Init) (Host, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &server{out: out, cancel: cancel, make: host, lines: newLineReader(in, MaxLine),
		held: map[int64]*heldCase{}}

	window, err := s.greet(ctx)
	if err != nil {
		return err
	}
	// The engine sends no more cases than the window.
	items := make(chan item, window+1)
	go s.read(ctx, items)
	return s.serve(ctx, items)
}

// errEngineGone is the error of a worker whose engine closed the pipe without a shutdown.
var errEngineGone = errors.New("the engine closed the pipe")

// heldCase is a case that was received and has not ended.
type heldCase struct {
	started  time.Time // of the first start; zero before it
	attached []Attachment
}

// item is a message of the engine that is processed in order.
type item struct {
	c         *Case
	configure *Configure
}

// server is the worker's side of the protocol. It implements Emitter.
type server struct {
	make   func(Init) (Host, error)
	init   Init
	host   Host
	lines  *lineReader
	cancel context.CancelCauseFunc

	outMu sync.Mutex
	out   io.Writer

	mu   sync.Mutex
	held map[int64]*heldCase
	last int64 // the case that was started last
}

// greet reads init and sends hello. It returns the number of cases that the worker may hold.
func (s *server) greet(ctx context.Context) (window int, err error) {
	line, err := s.lines.next()
	if err != nil {
		return 0, fmt.Errorf("no init message: %w", err)
	}
	if err := decodeMessage(line, &s.init); err != nil {
		return 0, fmt.Errorf("init: %w", err)
	}

	hello, err := s.hello(ctx)
	if err != nil {
		f := FailureOf(err)
		hello.Error = &f
	}

	hello.Type, hello.Protocol, hello.Pid = TypeHello, ProtocolVersion, os.Getpid()
	hello.Configure = true
	hello.Window = max(hello.Window, 1)
	return hello.Window, errors.Join(err, s.send(hello))
}

func (s *server) hello(ctx context.Context) (h Hello, err error) {
	defer Guard(&err)
	if s.init.Type != TypeInit {
		return h, fmt.Errorf("the first message is %q, not init", s.init.Type)
	}
	if s.init.Protocol != ProtocolVersion {
		return h, fmt.Errorf("the engine speaks version %d of the worker protocol, this worker version %d",
			s.init.Protocol, ProtocolVersion)
	}
	if s.host, err = s.make(s.init); err != nil {
		return h, err
	}
	return s.host.Hello(ctx)
}

// read queues the messages of the engine until the pipe ends. It closes items after a shutdown message.
func (s *server) read(ctx context.Context, items chan<- item) {
	for {
		line, err := s.lines.next()
		if err != nil {
			s.cancel(errEngineGone)
			return
		}

		var it item
		env, err := openEnvelope(line)
		switch {
		case err != nil:
		case env.Type == TypeCase:
			it.c = new(Case)
			err = decodeMessage(line, it.c)
		case env.Type == TypeConfigure:
			it.configure = new(Configure)
			err = decodeMessage(line, it.configure)
		case env.Type == TypeShutdown:
			if items != nil {
				close(items)
			}
			items = nil
			continue // the end of the pipe shows that the engine has ended
		default:
			err = &garbage{"a message of unknown type " + env.Type}
		}
		if err != nil {
			s.cancel(err)
			return
		}

		select {
		case items <- it: // blocks after a shutdown
		case <-ctx.Done():
			return
		}
	}
}

// serve runs the host, again after every configure message.
func (s *server) serve(ctx context.Context, items <-chan item) error {
	for {
		in, stop := make(chan Case), make(chan struct{})
		fed := make(chan *Configure, 1)
		go func() { fed <- s.feed(ctx, items, in, stop) }()

		err := s.run(ctx, in)
		close(stop)
		configure := <-fed
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}

		switch {
		case err == nil && configure == nil:
			return s.send(Bye{Type: TypeBye})
		case err == nil:
			err = s.configure(configure)
		}
		if err != nil {
			return s.leave(err)
		}
	}
}

// run calls Host.Serve. A panic fails the case that was started last and requests a new process.
func (s *server) run(ctx context.Context, in <-chan Case) (err error) {
	var panicked error
	func() {
		defer Guard(&panicked)
		err = s.host.Serve(ctx, in, s)
	}()
	if panicked == nil {
		return err
	}

	f := FailureOf(panicked)
	s.mu.Lock()
	held := s.held[s.last] != nil
	s.mu.Unlock()
	if held {
		s.Error(s.last, f)
	}
	return &RestartError{Reason: f.Message}
}

// feed passes cases to the host. It closes in and returns after a shutdown or a configure message, and if ctx ends. If
// it is stopped, it returns without closing in. The result is nil unless other settings have come.
func (s *server) feed(ctx context.Context, items <-chan item, in chan<- Case, stop <-chan struct{}) *Configure {
	for {
		var it item
		select {
		case it = <-items:
		case <-stop:
			return nil
		case <-ctx.Done():
		}
		if it.c == nil {
			close(in)
			return it.configure
		}

		// Hold the case before it is delivered, because the host may reply at once.
		s.mu.Lock()
		s.held[it.c.Seq] = &heldCase{}
		s.mu.Unlock()
		select {
		case in <- *it.c:
		case <-stop:
			return nil
		case <-ctx.Done():
			close(in)
			return nil
		}
	}
}

// leave requests a new process and sends the reason.
func (s *server) leave(err error) error {
	reason := err.Error()
	if r, ok := errors.AsType[*RestartError](err); ok {
		reason, err = r.Reason, nil
	}
	return errors.Join(err, s.send(Bye{Type: TypeBye, Restart: reason}))
}

// configure applies other settings.
func (s *server) configure(c *Configure) error {
	s.init.apply(*c)
	if err := s.host.Configure(s.init); err != nil {
		return fmt.Errorf("new settings: %w", err)
	}
	return nil
}

// get returns a held case, and removes it if it ends. what names the call for the panic if the case is not held.
func (s *server) get(what string, seq int64, ends bool) *heldCase {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[seq]
	if h == nil {
		panic(fmt.Sprintf("worker: %s of case %d, which is not held", what, seq))
	}
	if ends {
		delete(s.held, seq)
	}
	return h
}

// Start implements Emitter.
func (s *server) Start(seq int64) {
	h := s.get("Start", seq, false)
	s.mu.Lock()
	s.last = seq
	if h.started.IsZero() {
		h.started = time.Now()
	}
	s.mu.Unlock()
	s.stopAt(s.send(Start{Type: TypeStart, Seq: seq}))
}

// Result implements Emitter.
func (s *server) Result(seq int64, rows []Row, seconds float64) {
	h := s.get("Result", seq, true)
	if seconds == 0 && !h.started.IsZero() {
		seconds = time.Since(h.started).Seconds()
	}

	finite := make([]Row, len(rows))
	for i, r := range rows {
		finite[i] = finiteRow(r)
	}
	err := s.send(CaseResult{Type: TypeResult, Seq: seq, Rows: finite, Seconds: seconds, Attachments: h.attached})
	if err != nil {
		// The case must end even if its rows cannot be encoded.
		err = s.send(Error{Type: TypeError, Seq: seq, Failure: Failure{
			Class: ClassCollectorBug, Message: "the rows cannot be sent: " + err.Error(),
		}})
	}
	s.stopAt(err)
}

// Attach implements Emitter.
func (s *server) Attach(seq int64, a Attachment) {
	h := s.get("Attach", seq, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	h.attached = append(h.attached, a)
}

// Error implements Emitter.
func (s *server) Error(seq int64, f Failure) {
	h := s.get("Error", seq, true)
	f.Traceback = clip(f.Traceback, maxTraceback)
	f.Message = clip(f.Message, maxTraceback)
	s.stopAt(s.send(Error{Type: TypeError, Seq: seq, Failure: f, Attachments: h.attached}))
}

// Log implements Emitter.
func (s *server) Log(level, format string, args ...any) {
	s.stopAt(s.send(Log{Type: TypeLog, Level: level, Text: fmt.Sprintf(format, args...)}))
}

// maxTraceback bounds the text of one failure, in bytes.
const maxTraceback = 256 << 10

// clip shortens a text in its middle, because both ends of a traceback matter.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	half := most / 2
	return fmt.Sprintf("%s\n... %d bytes left out ...\n%s", text[:half], len(text)-2*half, text[len(text)-half:])
}

// stopAt ends the worker's context if the engine cannot be reached any more, because further results would be lost.
func (s *server) stopAt(err error) {
	if err != nil {
		s.cancel(fmt.Errorf("cannot write to the engine: %w", err))
	}
}

func (s *server) send(msg any) error {
	line, err := encodeLine(msg)
	if err != nil {
		return err
	}
	s.outMu.Lock()
	defer s.outMu.Unlock()
	_, err = s.out.Write(line)
	return err
}
