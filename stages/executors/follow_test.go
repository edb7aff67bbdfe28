package executors

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeWork records the messages of the follower.
type fakeWork struct {
	left    []int
	lines   []string
	waiting string
}

func (*fakeWork) Take([]*Status) error  { return nil }
func (w *fakeWork) Left(shard int) int  { return w.left[shard] }
func (w *fakeWork) Waiting(text string) { w.waiting = text }
func (w *fakeWork) Say(level, format string, args ...any) {
	w.lines = append(w.lines, level+": "+fmt.Sprintf(format, args...))
}

// newFollower returns a follower of shards that were submitted as array 7. Slurm's commands are not
// installed.
func newFollower(t *testing.T, left ...int) (*Follower, *fakeWork) {
	t.Helper()
	o := &Order{Stage: "collect.s", Shards: make([]Shard, len(left))}
	if err := Create(t.TempDir(), o); err != nil {
		t.Fatal(err)
	}
	a := Array{Job: "7"}
	for i := range left {
		a.Shards = append(a.Shards, i)
	}
	if err := o.writeArrays([]Array{a}); err != nil {
		t.Fatal(err)
	}
	w := &fakeWork{left: left}
	f := &Follower{Config: &Config{Attempts: 2, Poll: time.Hour}, Order: o, Work: w,
		Script: Script{LogDir: o.Dir}}
	if err := f.load(); err != nil {
		t.Fatal(err)
	}
	return f, w
}

// TestJudgeStates checks that the state of a shard follows from the queue, the status of its task and
// the remaining cases.
func TestJudgeStates(t *testing.T) {
	t.Parallel()
	ended := func(s State) *Status { return &Status{State: s, Message: "m", Node: "n0", Left: 1} }
	for name, tt := range map[string]struct {
		jobs      []Job
		left      int
		status    *Status
		long      bool // the job has been gone for longer than the file system is waited for
		fruitless int  // before
		want      shardState
	}{
		"pending": {jobs: []Job{{"7", 0, "PENDING", "Priority"}}, left: 1, want: queued},
		"held after a requeue": {jobs: []Job{{"7", 0, "SPECIAL_EXIT", "job requeued in held state"}}, left: 1,
			want: queued},
		"running": {jobs: []Job{{"7", 0, "RUNNING", "None"}}, left: 1, want: running},
		"never starts": {jobs: []Job{{"7", 0, "PENDING", "PartitionNodeLimit"}}, left: 1,
			want: failed},
		"above a limit of each job": {jobs: []Job{{"7", 0, "PENDING", "QOSMaxWallDurationPerJobLimit"}}, left: 1,
			want: failed},
		"above a limit of the user": {jobs: []Job{{"7", 0, "PENDING", "QOSMaxJobsPerUserLimit"}}, left: 1,
			want: queued},
		"pending without cases":          {jobs: []Job{{"7", 0, "PENDING", "BeginTime"}}, want: done},
		"another task of the array":      {jobs: []Job{{"7", 1, "RUNNING", "None"}}, left: 1, want: lost},
		"ended, nothing left":            {status: ended(Done), want: done},
		"gone without a status":          {left: 1, want: lost},
		"gone for long":                  {left: 1, long: true, want: pending},
		"gone for long, again":           {left: 1, long: true, fruitless: 1, want: failed},
		"drained":                        {left: 1, status: ended(Drained), want: lost},
		"drained some polls ago":         {left: 1, status: ended(Drained), long: true, want: pending},
		"failed":                         {left: 1, status: ended(Failed), fruitless: 1, want: failed},
		"ended, rows are not here yet":   {left: 2, status: ended(Done), want: lost},
		"ended, rows are still not here": {left: 2, status: ended(Done), long: true, want: pending},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := newFollower(t, tt.left)
			s := &f.shards[0]
			s.status, s.fruitless = tt.status, tt.fruitless
			if tt.long {
				s.state, s.gone = lost, time.Now().Add(-13*f.Config.Poll)
			}
			if stopped := f.update(t.Context(), tt.jobs); stopped != "" || s.state != tt.want {
				t.Errorf("state %d (%s), stopped %q; want state %d", s.state, s.why, stopped, tt.want)
			}
		})
	}
}

// TestJudgeCountsTriesWithoutRows checks that a new row resets the count, except if the job was
// cancelled.
func TestJudgeCountsTriesWithoutRows(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]shardState{"its time was over": pending,
		"Slurm reports CANCELLED by 0": failed} {
		f, w := newFollower(t, 5)
		w.left[0] = 3
		s := &f.shards[0]
		s.fruitless, s.status = 1, &Status{State: Failed, Message: message, Left: 3}
		if f.update(t.Context(), nil); s.state != want {
			t.Errorf("%s: state %d, want %d: %s", message, s.state, want, w.lines)
		}
	}
}

func TestJudgeStopsIfRampOfTaskFails(t *testing.T) {
	t.Parallel()
	f, _ := newFollower(t, 1)
	f.shards[0].status = &Status{State: Stopped, Message: "rung 1 of 2 did not pass"}
	if got := f.update(t.Context(), nil); got != "rung 1 of 2 did not pass" {
		t.Errorf("%q", got)
	}
}

func TestShowReportsEachReasonOnce(t *testing.T) {
	t.Parallel()
	f, w := newFollower(t, 1, 1)
	jobs := []Job{{"7", 0, "RUNNING", "None"}, {"7", 1, "PENDING", "ReqNodeNotAvail, UnavailableNodes:n[0-3]"}}
	for range 2 {
		f.update(t.Context(), jobs)
	}
	if want := "tasks: 1 running, 1 waiting (ReqNodeNotAvail, UnavailableNodes:n[0-3])"; w.waiting != want {
		t.Errorf("%q, want %q", w.waiting, want)
	}
	if len(w.lines) != 1 || !strings.HasPrefix(w.lines[0],
		"info: task 1: waiting, Slurm gives the reason ReqNodeNotAvail") {
		t.Errorf("%q", w.lines)
	}
}

func TestPostMortemReadsEndOfLog(t *testing.T) {
	t.Parallel()
	f, _ := newFollower(t, 1)
	log, err := os.Create(filepath.Join(f.Script.LogDir, "aic_collect.s_7_0.err"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.WriteAt([]byte("\nit broke\xff\nfor good\n"), 1<<20); err != nil { // behind a hole
		t.Fatal(err)
	}
	if got, want := f.postMortem(0, ""),
		"its job ended without a result; the end of its output: it broke? / for good"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestOrdersInOddFolder checks that a state folder may have characters that patterns of file names use.
func TestOrdersInOddFolder(t *testing.T) {
	state := filepath.Join(t.TempDir(), "run[1]*")
	if err := os.Mkdir(state, 0o755); err != nil {
		t.Fatal(err)
	}
	o := &Order{Stage: "collect.a", Shards: []Shard{{}}}
	if err := Create(Home(state, o.Stage), o); err != nil {
		t.Fatal(err)
	}
	if found, err := Orders(state); err != nil || len(found) != 1 || found[0].ID != o.ID {
		t.Errorf("%v, error %v", found, err)
	}
}
