package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
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
	s := &server{
		out:    bufio.NewWriterSize(out, 16<<10),
		cancel: cancel,
		make:   host,
		lines:  newLineReader(in, MaxLine),
		held:   map[int64]*heldCase{},
		wake:   make(chan struct{}, 1),
	}

	if err := s.greet(ctx); err != nil {
		return err
	}

	go s.read()
	return s.serve(ctx)
}

// errEngineGone is the error of a worker whose engine closed the pipe without a shutdown.
var errEngineGone = errors.New("the engine closed the pipe")

type heldCase struct {
	Case
	started  time.Time // of the first start; zero before it
	attached []Attachment
	lastNo   int // number of its last start; the case with the highest one fails after a panic
}

// item is a message of the engine that is processed in order.
type item struct {
	c         *Case
	configure *Configure
}

type server struct {
	make  func(Init) (Host, error)
	init  Init
	host  Host
	lines *lineReader

	cancel context.CancelCauseFunc

	outMu sync.Mutex
	out   *bufio.Writer
	line  []byte // buffer for one message

	mu      sync.Mutex
	queue   []item // not yet passed to the host
	closed  bool   // shutdown was read
	held    map[int64]*heldCase
	order   []int64 // held cases in the order they were received
	startNo int
	wake    chan struct{}
}

// greet reads init and sends hello.
func (s *server) greet(ctx context.Context) error {
	line, err := s.lines.next()
	if err != nil {
		return fmt.Errorf("no init message: %w", err)
	}

	if err := decodeMessage(line, &s.init); err != nil {
		return fmt.Errorf("init: %w", err)
	}

	hello, err := s.hello(ctx)
	if err != nil {
		f := FailureOf(err)
		hello.Error = &f
	}

	hello.Type, hello.Protocol, hello.Pid = TypeHello, ProtocolVersion, os.Getpid()
	hello.Configure = true
	hello.Window = max(hello.Window, 1)
	if sendErr := s.send(hello); sendErr != nil {
		return errors.Join(err, sendErr)
	}

	return err
}

func (s *server) hello(ctx context.Context) (h Hello, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &StartError{panicFailure(p, debug.Stack())}
		}
	}()

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

// read queues the messages of the engine until the pipe ends.
func (s *server) read() {
	for {
		line, err := s.lines.next()
		if err != nil {
			s.cancel(errEngineGone)
			return
		}

		env, err := openEnvelope(line)
		if err != nil {
			s.cancel(err)
			return
		}

		var it item
		switch env.Type {
		case TypeCase:
			it.c = new(Case)
			err = decodeMessage(line, it.c)
		case TypeConfigure:
			it.configure = new(Configure)
			err = decodeMessage(line, it.configure)
		case TypeShutdown:
			s.push(item{}, true)
			continue // the end of the pipe shows that the engine has ended
		default:
			err = &garbage{"a message of unknown type " + env.Type}
		}

		if err != nil {
			s.cancel(err)
			return
		}

		s.push(it, false)
	}
}

func (s *server) push(it item, last bool) {
	s.mu.Lock()
	if last {
		s.closed = true
	} else {
		s.queue = append(s.queue, it)
	}

	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// serve runs the host. It runs it again after a panic or a configure message.
func (s *server) serve(ctx context.Context) error {
	for {
		in := make(chan Case)
		stop := make(chan struct{})
		fed := make(chan *Configure, 1)
		go func() { fed <- s.feed(ctx, in, stop) }()
		panicked, err := s.run(ctx, in)
		close(stop)
		conf := <-fed
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}

		switch {
		case panicked != nil:
			if conf != nil {
				s.mu.Lock()
				s.queue = append([]item{{configure: conf}}, s.queue...)
				s.mu.Unlock()
			}

			if !s.blame(*panicked) {
				return fmt.Errorf("the host panicked without a case: %s", panicked.Traceback)
			}

			continue
		case err != nil:
			return s.leave(err)
		case s.unended() > 0:
			return s.leave(errors.New("the host did not end all cases"))
		case conf != nil:
			if err := s.configure(conf); err != nil {
				return s.leave(err)
			}

			continue
		case !s.drained():
			return s.leave(errors.New("the host returned before all cases were done"))
		}

		return s.send(Bye{Type: TypeBye})
	}
}

// run calls Host.Serve and returns a panic as a failure.
func (s *server) run(ctx context.Context, in <-chan Case) (panicked *Failure, err error) {
	defer func() {
		if p := recover(); p != nil {
			f := panicFailure(p, debug.Stack())
			panicked = &f
		}
	}()

	return nil, s.host.Serve(ctx, in, s)
}

// feed passes queued cases to the host. It closes in and returns if the queue has ended, a
// configure message is next, or ctx ends, because the host may be waiting for a case. If it is
// stopped, it returns without closing in.
func (s *server) feed(ctx context.Context, in chan<- Case, stop <-chan struct{}) *Configure {
	for {
		s.mu.Lock()
		var next *Case
		var conf *Configure
		end := s.closed && len(s.queue) == 0
		if len(s.queue) > 0 {
			next, conf = s.queue[0].c, s.queue[0].configure
		}

		if conf != nil {
			s.queue = s.queue[1:]
		}

		if next != nil {
			// Hold the case before it is delivered, because the host may reply at once.
			s.queue = s.queue[1:]
			s.held[next.Seq] = &heldCase{Case: *next}
			s.order = append(s.order, next.Seq)
		}

		s.mu.Unlock()
		switch {
		case end || conf != nil:
			close(in)
			return conf
		case next != nil:
			select {
			case in <- *next:
			case <-stop:
				s.giveBack(next.Seq)
				return nil
			case <-ctx.Done():
				close(in)
				return nil
			}
		default:
			select {
			case <-s.wake:
			case <-stop:
				return nil
			case <-ctx.Done():
				close(in)
				return nil
			}
		}
	}
}

// giveBack returns held cases to the front of the queue, oldest first.
func (s *server) giveBack(seqs ...int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var items []item
	for _, seq := range seqs {
		h := s.held[seq]
		s.drop(seq)
		items = append(items, item{c: &h.Case})
	}

	s.queue = append(items, s.queue...)
}

// drop removes a held case. The caller must have locked mu.
func (s *server) drop(seq int64) {
	delete(s.held, seq)
	s.order = slices.DeleteFunc(s.order, func(o int64) bool { return o == seq })
}

// blame fails the case that was started last and queues the other held ones again. It returns
// false if no case was started.
func (s *server) blame(f Failure) bool {
	s.mu.Lock()
	var last *heldCase
	for _, h := range s.held {
		if h.lastNo > 0 && (last == nil || h.lastNo > last.lastNo) {
			last = h
		}
	}

	s.mu.Unlock()
	if last == nil {
		return false
	}

	s.Error(last.Seq, f)
	s.mu.Lock()
	rest := slices.Clone(s.order)
	s.mu.Unlock()
	s.giveBack(rest...)
	return true
}

func (s *server) unended() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

func (s *server) drained() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed && len(s.queue) == 0
}

// leave requests a new process and sends the reason.
func (s *server) leave(err error) error {
	reason := err.Error()
	if r, ok := errors.AsType[*RestartError](err); ok {
		reason = r.Reason
		err = nil
	}

	return errors.Join(err, s.send(Bye{Type: TypeBye, Restart: reason}))
}

func (s *server) configure(c *Configure) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("new settings: panic: %v\n%s", p, debug.Stack())
		}
	}()

	s.init.Measure, s.init.Ops, s.init.Blocks, s.init.Reads, s.init.Seed = c.Measure, c.Ops, c.Blocks, c.Reads, c.Seed
	if h, ok := s.host.(Configurer); ok {
		if err := h.Configure(s.init); err != nil {
			return fmt.Errorf("new settings: %w", err)
		}

		return nil
	}

	if h, ok := s.host.(io.Closer); ok {
		if err := h.Close(); err != nil {
			return fmt.Errorf("new settings: %w", err)
		}
	}

	if s.host, err = s.make(s.init); err != nil {
		return fmt.Errorf("new settings: %w", err)
	}

	return nil
}
