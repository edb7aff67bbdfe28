package worker

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"
)

// TestTakeReturnsFirstCaseAlone has one case there and an engine that keeps
// the channel open because it waits for that case's end.
func TestTakeReturnsFirstCaseAlone(t *testing.T) {
	for name, early := range map[string]bool{"it was there already": true, "it comes later": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := make(chan Case, 1)
				one := Case{Seq: 7, Op: "any", Params: json.RawMessage(`{}`)}
				if early {
					in <- one
				} else {
					go func() { in <- one }()
				}
				inTurn := &InTurn{Window: 4, Open: func(Case) (Visitor, error) { return nil, nil }}
				got := make(chan []turn)
				go func() {
					cases, open, err := inTurn.take(context.Background(), nil, in, nil)
					if err != nil || !open {
						t.Errorf("open %v, %v", open, err)
					}
					got <- cases
				}()
				// A take that waits for ever leaves the bubble in a deadlock, which
				// fails the test.
				if cases := <-got; len(cases) != 1 || cases[0].seq != 7 {
					t.Errorf("took %+v", cases)
				}
			})
		})
	}
}

// slowVisits is a case of three visits of 10 ms.
type slowVisits struct{ made int }

func (v *slowVisits) Visit(context.Context) ([]Row, float64, bool, error) {
	time.Sleep(10 * time.Millisecond)
	v.made++
	return nil, 0, v.made == 3, nil
}

// results notes the seconds of every case.
type results struct {
	Emitter
	seconds []float64
}

func (*results) Start(int64)                                {}
func (r *results) Result(_ int64, _ []Row, seconds float64) { r.seconds = append(r.seconds, seconds) }

// TestInTurnReportsSecondsOfVisits: estimates multiply them by the number of cases, so
// the visits to other cases in between are no part of them.
func TestInTurnReportsSecondsOfVisits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := make(chan Case, 8)
		for seq := range int64(8) {
			in <- Case{Seq: seq}
		}
		close(in)
		out := &results{}
		inTurn := &InTurn{Window: 8, Open: func(Case) (Visitor, error) { return &slowVisits{}, nil }}
		if err := inTurn.Serve(t.Context(), in, out); err != nil {
			t.Fatal(err)
		}
		if len(out.seconds) != 8 {
			t.Fatalf("%d results", len(out.seconds))
		}
		for _, s := range out.seconds {
			if s != 0.03 {
				t.Errorf("%v s for three visits of 10 ms", s)
			}
		}
	})
}
