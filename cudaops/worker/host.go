package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
)

// Host executes cases inside a worker process. The function Serve implements the protocol
// for it.
type Host interface {
	// Hello returns version, device, window and ops. The caller fills in Type, Protocol and
	// Pid, and Window if it is 0. An error means that this worker cannot work at all; a
	// *Failure has the failure class.
	Hello(ctx context.Context) (Hello, error)
	// Serve executes the cases of in. It ends every case with exactly one Result or Error
	// before it returns, and returns nil once in is closed. A *RestartError requests a new
	// process, which then gets the cases that were received and not started.
	//
	// The engine keeps up to Hello.Window cases in the worker. A host that receives several
	// may choose their order. A panic fails the case that was
	// started last and ends the process. If ctx ends, in is closed, and further
	// results are ignored.
	Serve(ctx context.Context, in <-chan Case, out Emitter) error
	// Configure applies other settings. It is called between two calls of Serve.
	Configure(Init) error
}

// Emitter sends a host's messages. It is safe for concurrent use. Its methods panic if the
// host does not hold the case, which is a mistake in the host.
type Emitter interface {
	// Start reports that work on the case begins, which starts its deadline.
	Start(seq int64)
	// Result ends a case with its rows. seconds is the wall time spent on it; 0 means the
	// time since its first Start.
	Result(seq int64, rows []Row, seconds float64)
	// Error ends a case without rows.
	Error(seq int64, f Failure)
	// Attach adds a file to a case that has not ended.
	Attach(seq int64, a Attachment)
	// Log shows one line to the user. level is debug, info, warn or error.
	Log(level, format string, args ...any)
}

// RestartError is returned by Host.Serve to request a new process.
type RestartError struct{ Reason string }

func (e *RestartError) Error() string { return "restart: " + e.Reason }

// Sequential is a Host that runs one case after the other in the order of the engine.
type Sequential struct {
	// About implements Hello.
	About func(ctx context.Context) (Hello, error)
	// Run measures one case. An error ends the case. A *Failure has its class; if it is
	// Fatal, the process is replaced. A panic is an error with its stack.
	Run func(ctx context.Context, c Case) ([]Row, error)
	// Reset applies other settings. It is nil if the host has none.
	Reset func(Init) error
}

// Hello implements Host.
func (s *Sequential) Hello(ctx context.Context) (Hello, error) { return s.About(ctx) }

// Configure implements Host.
func (s *Sequential) Configure(init Init) error {
	if s.Reset == nil {
		return nil
	}

	return s.Reset(init)
}

// Serve implements Host.
func (s *Sequential) Serve(ctx context.Context, in <-chan Case, out Emitter) error {
	open := func(c Case) (Visitor, error) { return &once{s, c}, nil }
	return (&InTurn{Window: 1, Open: open}).Serve(ctx, in, out)
}

// once is a case that is measured in one visit.
type once struct {
	*Sequential
	c Case
}

// Visit implements Visitor.
func (o *once) Visit(ctx context.Context) (rows []Row, seconds float64, done bool, err error) {
	rows, err = o.Run(ctx, o.c)
	return rows, 0, true, err
}

// SpoolFile creates a file for an attachment. Its base name is Attachment.File.
func SpoolFile(init Init, name string) (*os.File, error) {
	if init.Spool == "" {
		return nil, errors.New("this worker has no folder for attachments")
	}

	if err := os.MkdirAll(init.Spool, 0o755); err != nil {
		return nil, fmt.Errorf("folder for attachments: %w", err)
	}

	return os.CreateTemp(init.Spool, "*-"+name)
}

// Guard turns a panic into a failure with its stack. It must be deferred.
func Guard(err *error) {
	if p := recover(); p != nil {
		*err = &Failure{
			Exception: "panic",
			Message:   fmt.Sprint(p),
			Traceback: fmt.Sprintf("panic: %v\n\n%s", p, debug.Stack()),
		}
	}
}

// FailureOf converts an error to a failure.
func FailureOf(err error) Failure {
	if fe, ok := errors.AsType[*Failure](err); ok {
		f := *fe
		if err != error(fe) {
			// The wrapping error has the context.
			f.Message = err.Error()
		}

		return f
	}

	return Failure{Message: err.Error(), Exception: fmt.Sprintf("%T", err)}
}
