package worker

import (
	"context"
	"runtime/debug"
	"time"
)

// Visitor is a case that is measured in one or more visits.
type Visitor interface {
	// Visit works on the case; done says that rows are its result, and seconds what
	// it took (0: as long as its visits). An error ends the case.
	Visit(ctx context.Context) (rows []Row, seconds float64, done bool, err error)
}

// Teller is a Visitor that says, at debug level, what its visits found.
type Teller interface{ Tell() string }

// InTurn is the Serve of a Host that visits the cases that it holds in turn until
// each is measured: a disturbance of the machine that hits one visit of a case is
// over at the next.
type InTurn struct {
	// Window is how many cases are held.
	Window int
	// Open makes a case ready for its first visit.
	Open func(Case) (Visitor, error)
}

// turn is a case that is held.
type turn struct {
	seq     int64
	visitor Visitor
	begun   bool
	spent   time.Duration // in its visits; other cases have theirs in between
}

// gathering is how long to wait for further cases before the first ones begin: an
// engine sends several at once.
const gathering = 5 * time.Millisecond

// Serve works through the cases of in, as Host says.
func (t *InTurn) Serve(ctx context.Context, in <-chan Case, out Emitter) error {
	stop := make(chan struct{})
	defer close(stop)
	arrived := make(chan Case, t.Window)
	go pump(in, arrived, stop)
	var cases []turn
	for open := true; open || len(cases) > 0; {
		if open {
			var err error
			if cases, open, err = t.take(ctx, cases, arrived, out); err != nil {
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
				if x, ok := c.visitor.(Teller); ok {
					out.Log("debug", "%s", x.Tell())
				}
			default:
				left = append(left, c)
			}
		}
		cases = left
	}
	return nil
}

// pump passes cases on as they come, so that they are there when looked for.
func pump(in <-chan Case, to chan<- Case, stop <-chan struct{}) {
	defer close(to)
	for {
		select {
		case c, ok := <-in:
			if !ok {
				return
			}
			select {
			case to <- c:
			case <-stop:
				return
			}
		case <-stop:
			return
		}
	}
}

// take receives cases: what is there, and when none is held what comes within a
// moment of the first. It reports false when no more will come.
func (t *InTurn) take(ctx context.Context, cases []turn, in <-chan Case, out Emitter) ([]turn, bool, error) {
	add := func(c Case) {
		v, err := t.Open(c)
		if err != nil {
			out.Start(c.Seq)
			out.Error(c.Seq, FailureOf(err))
			return
		}
		cases = append(cases, turn{seq: c.Seq, visitor: v})
	}
	var over <-chan time.Time // ends the gathering
	if len(cases) > 0 {
		now := make(chan time.Time)
		close(now)
		over = now
	}
	for len(cases) < t.Window {
		if over == nil && len(cases) > 0 {
			// The engine may have no other case.
			timer := time.NewTimer(gathering)
			defer timer.Stop()
			over = timer.C
		}
		// What has arrived comes before the end of the wait.
		select {
		case c, ok := <-in:
			if !ok {
				return cases, false, nil
			}
			add(c)
			continue
		default:
		}
		select {
		case c, ok := <-in:
			if !ok {
				return cases, false, nil
			}
			add(c)
		case <-over:
			return cases, true, nil
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
	return cases, true, nil
}

// giveUp ends the cases that were begun in a process that cannot go on. Another
// one can measure them.
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

// visit turns a panic into the failure of one case.
func visit(ctx context.Context, v Visitor) (rows []Row, seconds float64, done bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &FailureError{panicFailure(p, debug.Stack())}
		}
	}()
	return v.Visit(ctx)
}
