package worker

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
)

// TestTakeDoesNotWaitForASecondCase has one case there and an engine that keeps
// the channel open because it waits for that case's end.
func TestTakeDoesNotWaitForASecondCase(t *testing.T) {
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
