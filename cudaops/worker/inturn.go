package worker

import (
	"context"
	"time"
)

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
		over := time.After(pause)
		if len(cases) == 0 {
			over, pause = nil, gathering
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
