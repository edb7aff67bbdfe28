package executors

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sayings keeps what the user is told.
type sayings struct{ lines, waiting []string }

func (*sayings) Take([]*Status) error     { return nil }
func (*sayings) Left(int) int             { return 1 }
func (w *sayings) Waiting(text string)    { w.waiting = append(w.waiting, text) }
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

// TestJobsThatWereRequeuedAndAreHeld: a site's epilog, or a person, requeues jobs
// into states that are not called PENDING; they wait like held ones, and have an
// end.
func TestJobsThatWereRequeuedAndAreHeld(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"SPECIAL_EXIT", "REQUEUE_HOLD"} {
		home := t.TempDir()
		o := &Order{ID: NewID(home, time.Now()), Stage: "collect.s", Key: "k"}
		if err := Create(home, o, []Shard{{Places: []int{0}}}); err != nil {
			t.Fatal(err)
		}
		said := &sayings{}
		f := &Follower{Config: &Config{Attempts: 3}, Order: o, Work: said, batches: []Batch{{Job: "7", Shards: []int{0}}}, shards: []shard{{}}}
		again, err := f.judge(t.Context(), []Job{{Array: "7", State: state, Reason: "job requeued in held state"}}, &Outcome{})
		if err != nil || len(again) > 0 {
			t.Errorf("%s: %v is submitted again (%v)", state, again, err)
		}
		if !f.ended() || !f.shards[0].held {
			t.Errorf("%s: it is waited for without end; said: %q", state, said.lines)
		}
		if text := strings.Join(said.lines, "\n"); !strings.Contains(text, "scontrol release 7 lets the jobs start") {
			t.Errorf("%s: %q", state, text)
		}
	}
}

// TestSuspendedJobsAreNotSilent: a job that Slurm has stopped in favour of another
// cannot say anything.
func TestSuspendedJobsAreNotSilent(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	o := &Order{ID: NewID(home, time.Now()), Stage: "collect.s", Key: "k"}
	if err := Create(home, o, []Shard{{Places: []int{0}}}); err != nil {
		t.Fatal(err)
	}
	said := &sayings{}
	long := time.Now().Add(-time.Hour)
	f := &Follower{Config: &Config{Attempts: 3}, Order: o, Work: said, batches: []Batch{{Job: "7", Shards: []int{0}}}, shards: []shard{{said: &Status{State: Running, Node: "n0"}, heard: long}}}
	if _, err := f.judge(t.Context(), []Job{{Array: "7", State: "SUSPENDED", Reason: "None"}}, &Outcome{}); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(said.lines, "\n"); strings.Contains(text, "has said nothing") {
		t.Errorf("%q", text)
	}
	if len(said.waiting) != 1 || !strings.Contains(said.waiting[0], "1 waiting (SUSPENDED: it was stopped in favour of another job") {
		t.Errorf("%q", said.waiting)
	}
}

// TestTailOfALongLog: only the end of a log is read.
func TestTailOfALongLog(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	o := &Order{ID: NewID(home, time.Now()), Stage: "collect.s", Key: "k"}
	if err := Create(home, o, []Shard{{Places: []int{0}}}); err != nil {
		t.Fatal(err)
	}
	f := &Follower{Config: &Config{}, Order: o}
	log, err := os.Create(filepath.Join(o.LogDir(nil), "aic_collect.s_7_0.err"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := log.Truncate(1 << 40); err != nil { // a hole: no disk is used
		t.Skipf("no large file can be made here: %v", err)
	}
	if _, err := log.WriteAt([]byte("\nit broke\xff\nfor good\n"), 1<<40-20); err != nil {
		t.Fatal(err)
	}
	if got := f.tail(0, "7_0"); got != "it broke? / for good" {
		t.Errorf("%q", got)
	}
}
