package run

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/plan"
	"aicplan/engine/stage"
)

// beats notes when progress was shown, in virtual seconds.
type beats struct {
	start time.Time
	seen  []string
}

func (b *beats) Progress(address string, p stage.Progress) {
	b.seen = append(b.seen, fmt.Sprintf("%.0f %s %d/%d", time.Since(b.start).Seconds(), address, p.Done, p.Total))
}
func (b *beats) RunStart(*plan.Plan, string)       {}
func (b *beats) StageStart(string, string, string) {}
func (b *beats) Message(string, string, string)    {}
func (b *beats) StageEnd(*StageResult)             {}
func (b *beats) Diagnostics(hcl.Diagnostics)       {}
func (b *beats) RunEnd(*Applied)                   {}

// TestProgressRepeatsWhileNothingHappens shows a stage that says nothing for a
// long time, and none that has ended.
func TestProgressRepeatsWhileNothingHappens(t *testing.T) {
	b := newBench(t)
	synctest.Test(t, func(t *testing.T) {
		view := &beats{start: time.Now()}
		b.do["thing.slow"] = func(rc *stage.RunContext) (*stage.Outcome, error) {
			time.Sleep(7 * time.Second)
			rc.Events.Progress(rc.Address, stage.Progress{Done: 1, Total: 2})
			time.Sleep(5 * time.Second)
			return &stage.Outcome{Status: stage.StatusOK, Data: rows(1)}, nil
		}
		b.do["thing.next"] = func(*stage.RunContext) (*stage.Outcome, error) {
			time.Sleep(4 * time.Second)
			return &stage.Outcome{Status: stage.StatusOK, Data: rows(1)}, nil
		}
		b.apply("thing \"slow\" {}\nthing \"next\" { input = thing.slow }\n",
			func(o *Options, _ *plan.Options) { o.View = view })
		want := []string{"5 thing.slow 0/0", "7 thing.slow 1/2", "10 thing.slow 1/2", "15 thing.next 0/0"}
		if !slices.Equal(view.seen, want) {
			t.Errorf("seen %q, want %q", view.seen, want)
		}
	})
}
