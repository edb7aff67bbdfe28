package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
)

// Host executes cases inside a worker process. Serve (the function) speaks the
// protocol for it.
type Host interface {
	// Hello says who the worker is: version, device, window, ops. Type, Protocol
	// and Pid are filled in by the caller, and Window when it is 0. An error
	// means that this worker cannot work at all; a *StartError carries its class.
	Hello(ctx context.Context) (Hello, error)
	// Serve works through the cases of in. It ends every case that it received
	// with exactly one Result or Error before it returns, and returns nil once in
	// is closed. A *RestartError asks for a fresh process; cases received and not
	// started then go to that process.
	//
	// The engine holds up to Hello.Window cases in the worker; a host that
	// receives more before it ends the first may choose their order. A panic ends
	// the case that was started last with an error, and Serve is called again
	// with the others: state kept between calls must survive that. When ctx ends, in is
	// closed: the engine is gone and nothing counts any more.
	Serve(ctx context.Context, in <-chan Case, out Emitter) error
}

// Configurer is implemented by hosts that take other settings between cases.
// Hosts without it are made anew, which loses what they have warmed up.
type Configurer interface {
	Configure(Init) error
}

// Emitter is what a host answers with. It is safe for concurrent use. Its
// methods panic when a case is named that the host does not hold: that is a
// mistake in the host.
type Emitter interface {
	// Start says that work on the case begins; its deadline runs from here.
	Start(seq int64)
	// Result ends a case. Seconds is the wall time spent on it; 0 means the time
	// since its first Start.
	Result(seq int64, rows []Row, seconds float64)
	// Error ends a case without rows.
	Error(seq int64, f Failure)
	// Attach adds a file to a case that has not ended.
	Attach(seq int64, a Attachment)
	// Log shows one line to the user; level is debug, info, warn or error.
	Log(level, format string, args ...any)
}

// StartError is the reason why a host cannot work at all.
type StartError struct{ Failure Failure }

func (e *StartError) Error() string { return e.Failure.Message }

// RestartError is returned by Host.Serve to be replaced by a fresh process.
type RestartError struct{ Reason string }

func (e *RestartError) Error() string { return "restart: " + e.Reason }

// FailureError lets an error carry a class through a case function.
type FailureError struct{ Failure Failure }

func (e *FailureError) Error() string {
	if e.Failure.Exception != "" {
		return e.Failure.Exception + ": " + e.Failure.Message
	}
	return e.Failure.Message
}

// Sequential is a Host that runs one case after the other in the order that
// the engine chose.
type Sequential struct {
	// About answers Hello.
	About func(ctx context.Context) (Hello, error)
	// Run measures one case. An error ends the case; a *FailureError carries the
	// class, a Fatal one has the process replaced. A panic is an error with its
	// stack.
	Run func(ctx context.Context, c Case) ([]Row, error)
	// Reset takes other settings; nil when there are none to take.
	Reset func(Init) error
}

// Hello implements Host.
func (s *Sequential) Hello(ctx context.Context) (Hello, error) { return s.About(ctx) }

// Configure implements Configurer.
func (s *Sequential) Configure(init Init) error {
	if s.Reset == nil {
		return nil
	}
	return s.Reset(init)
}

// Serve implements Host.
func (s *Sequential) Serve(ctx context.Context, in <-chan Case, out Emitter) error {
	// Where a case waits, the result of the one before goes out with its start: one
	// write for each case.
	end, flush := out.Result, func() {}
	if server, ok := out.(*server); ok {
		end, flush = server.result, server.flush
	}
	next := func() (c Case, ok bool, err error) {
		select {
		case c, ok = <-in:
			return c, ok, nil
		default:
			flush()
		}
		select {
		case <-ctx.Done():
			return c, false, ctx.Err()
		case c, ok = <-in:
			return c, ok, nil
		}
	}
	for {
		c, ok, err := next()
		if !ok {
			flush()
			return err
		}
		out.Start(c.Seq)
		rows, err := s.guarded(context.WithValue(ctx, attachKey{}, func(a Attachment) { out.Attach(c.Seq, a) }), c)
		if err == nil {
			end(c.Seq, rows, 0)
			continue
		}
		f := FailureOf(err)
		out.Error(c.Seq, f)
		if f.Fatal {
			return &RestartError{Reason: f.Message}
		}
	}
}

type attachKey struct{}

// Attach adds a file to the case that Sequential.Run works on with ctx.
func Attach(ctx context.Context, a Attachment) {
	add, ok := ctx.Value(attachKey{}).(func(Attachment))
	if !ok {
		panic("worker: Attach outside of Sequential.Run")
	}
	add(a)
}

// SpoolFile creates a file for an attachment; its base name is Attachment.File.
func SpoolFile(init Init, name string) (*os.File, error) {
	if init.Spool == "" {
		return nil, errors.New("this worker has no folder for attachments")
	}
	if err := os.MkdirAll(init.Spool, 0o755); err != nil {
		return nil, fmt.Errorf("folder for attachments: %w", err)
	}
	return os.CreateTemp(init.Spool, "*-"+name)
}

func (s *Sequential) guarded(ctx context.Context, c Case) (rows []Row, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &FailureError{panicFailure(p, debug.Stack())}
		}
	}()
	return s.Run(ctx, c)
}

// FailureOf turns an error into what the protocol sends.
func FailureOf(err error) Failure {
	if fe, ok := errors.AsType[*FailureError](err); ok {
		f := fe.Failure
		if err != error(fe) {
			// The wrapping says where it happened.
			f.Message = err.Error()
		}
		return f
	}
	if se, ok := errors.AsType[*StartError](err); ok {
		return se.Failure
	}
	return Failure{Message: err.Error(), Exception: fmt.Sprintf("%T", err)}
}

func panicFailure(p any, stack []byte) Failure {
	return Failure{
		Exception: "panic",
		Message:   fmt.Sprint(p),
		Traceback: fmt.Sprintf("panic: %v\n\n%s", p, stack),
	}
}
