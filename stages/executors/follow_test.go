package executors

import (
	"strings"
	"testing"
	"time"
)

// sayings keeps what the user is told.
type sayings struct{ lines []string }

func (*sayings) Take([]*Status) error     { return nil }
func (*sayings) Left(int) int             { return 1 }
func (*sayings) Waiting(string)           {}
func (w *sayings) Say(level, text string) { w.lines = append(w.lines, level+": "+text) }

// TestSilenceIsByTheCoordinatorsClock: a node whose clock is an hour behind is not
// silent, and one that is heard no more is, whatever its clock says.
func TestSilenceIsByTheCoordinatorsClock(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	o := &Order{ID: NewID(home, time.Now()), Stage: "collect.s", Key: "k"}
	if err := Create(home, o, []Shard{{Places: []int{0}}}); err != nil {
		t.Fatal(err)
	}
	said := &sayings{}
	f := &Follower{Config: &Config{Settle: time.Minute}, Order: o, Work: said, shards: []shard{{}}}
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		said.lines = nil
		status := Status{Shard: 0, State: Running, Node: "n0", Seen: time.Now().Add(skew)}
		if err := writeJSON(o.statusFile(0), status); err != nil {
			t.Fatal(err)
		}
		if err := f.take(); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		f.silence(0, Job{Array: "1"}, now)
		if len(said.lines) > 0 {
			t.Errorf("skew %v: %v", skew, said.lines)
		}
		f.silence(0, Job{Array: "1"}, now.Add(quietAfter*Heartbeat+2*time.Minute))
		if len(said.lines) != 1 || !strings.Contains(said.lines[0], "has said nothing for") {
			t.Errorf("skew %v: %v", skew, said.lines)
		}
		f.shards[0].silent = false
	}
}
