package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"
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

// Visitor is a case that is measured in one or more visits.
type Visitor interface {
	// Visit continues the measurement. If done is true, rows is the result, and seconds the
	// time that it took (0: the time of its visits). An error ends the case.
	Visit(ctx context.Context) (rows []Row, seconds float64, done bool, err error)
}

// InTurn implements Serve of a Host that visits its cases in turn until each is measured.
// A disturbance of the machine during one visit of a case is usually over at the next.
type InTurn struct {
	// Window is the number of cases that are visited in turn.
	Window int
	// Open prepares a case for its first visit.
	Open func(Case) (Visitor, error)
}

// turn is an open case.
type turn struct {
	seq     int64
	visitor Visitor
	begun   bool
	spent   time.Duration // in its visits
}

const (
	// gathering is how long to wait for further cases before the first ones begin, because the
	// engine sends several at once.
	gathering = 5 * time.Millisecond
	// handover is how long to wait for a case that has arrived.
	handover = 100 * time.Microsecond
)

// Serve implements Host.
func (t *InTurn) Serve(ctx context.Context, in <-chan Case, out Emitter) error {
	var cases []turn
	for open := true; open || len(cases) > 0; {
		if open {
			var err error
			if cases, open, err = t.take(ctx, cases, in, out); err != nil {
				return err
			}
		}

		var left []turn
		for i, c := range cases {
			out.Start(c.seq)
			c.begun = true
			began := time.Now()
			rows, seconds, done, err := visit(ctx, c.visitor)
			c.spent += time.Since(began)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}

			switch {
			case err != nil:
				f := FailureOf(err)
				out.Error(c.seq, f)
				if f.Fatal {
					return giveUp(append(left, cases[i+1:]...), f, out)
				}
			case done:
				if seconds == 0 {
					seconds = c.spent.Seconds()
				}

				out.Result(c.seq, rows, seconds)
			default:
				left = append(left, c)
			}
		}

		cases = left
	}

	return nil
}

// take receives the cases that have arrived. If none is open, it waits for the first one and
// a moment for others. It returns false if no more will come.
func (t *InTurn) take(ctx context.Context, cases []turn, in <-chan Case, out Emitter) ([]turn, bool, error) {
	for pause := handover; len(cases) < t.Window; {
		var over <-chan time.Time
		if len(cases) > 0 {
			over = time.After(pause)
		} else {
			pause = gathering
		}

		select {
		case c, ok := <-in:
			if !ok {
				return cases, false, nil
			}

			v, err := t.Open(c)
			if err == nil {
				cases = append(cases, turn{seq: c.Seq, visitor: v})
				continue
			}
			out.Start(c.Seq)
			out.Error(c.Seq, FailureOf(err))
		case <-over:
			return cases, true, nil
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
	return cases, true, nil
}

// giveUp fails the cases that were begun in a process that cannot continue. They are
// transient failures, because another process can measure them.
func giveUp(cases []turn, f Failure, out Emitter) error {
	for _, c := range cases {
		if c.begun {
			out.Error(c.seq, Failure{
				Class: ClassTransient, Exception: "WorkerLost",
				Message: "the worker had to be replaced while it measured this case: " + f.Message,
			})
		}
	}

	return &RestartError{Reason: f.Message}
}

// visit returns a panic as a failure of the case.
func visit(ctx context.Context, v Visitor) (rows []Row, seconds float64, done bool, err error) {
	defer Guard(&err)
	return v.Visit(ctx)
}
