package executors

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"aicplan/sink/phrase"
)

// retell is how often it is said again how many tasks run.
const retell = 30 * time.Second

// How long a reason for waiting lasts before a line of its own says it: those of a
// busy cluster a while, others a moment.
const (
	usualAfter   = 10 * time.Second
	unusualAfter = time.Second
	forgotten    = 10 * time.Minute // it is said again when it comes back after that
)

var usual = []string{"Priority", "Resources", "Dependency", "JobArrayTaskLimit", "BeginTime", "Cleaning", "Prolog"}

// lasting is a reason for waiting.
type lasting struct {
	since, last time.Time
	said        bool
}

// sayReasons says once why tasks wait.
func (f *Follower) sayReasons(reasons map[string]int, now time.Time) {
	if f.reasons == nil {
		f.reasons = map[string]*lasting{}
	}
	for _, r := range slices.Sorted(maps.Keys(reasons)) {
		name, _, _ := strings.Cut(r, ",") // names of nodes are behind it
		if name == "" || name == "None" {
			continue // Slurm has not looked at it
		}
		l := f.reasons[name]
		if l == nil || now.Sub(l.last) > forgotten {
			l = &lasting{since: now}
			f.reasons[name] = l
		}
		l.last = now
		after := unusualAfter
		if slices.Contains(usual, name) {
			after = usualAfter
		}
		if l.said || now.Sub(l.since) < after {
			continue
		}
		l.said = true
		why, _ := whyWaiting(r)
		wait := "wait"
		if reasons[r] == 1 {
			wait = "waits"
		}
		f.Work.Say("info", fmt.Sprintf("%s %s (%s)", phrase.Some(reasons[r], "task"), wait, why))
	}
}

// tell shows how many tasks run and wait, when that has changed.
func (f *Follower) tell(running int, reasons map[string]int) {
	f.sayReasons(reasons, time.Now())
	var parts []string
	if running > 0 {
		parts = append(parts, fmt.Sprintf("%d running", running))
	}
	for _, r := range slices.Sorted(maps.Keys(reasons)) {
		why, how := whyWaiting(r)
		if how == held {
			why += "; scontrol release lets it start"
		}
		parts = append(parts, fmt.Sprintf("%d waiting (%s)", reasons[r], why))
	}
	if f.crowded > 0 {
		parts = append(parts, fmt.Sprintf("%d to be submitted (parallel says how many)", f.crowded))
	}
	text := strings.Join(parts, ", ")
	if text != "" && (text != f.waiting || time.Since(f.waitingTold) > retell) {
		f.waiting, f.waitingTold = text, time.Now()
		f.Work.Waiting("tasks: " + text)
	}
}

// told are shards by what there is to say of them.
type told map[string][]int

func (t told) add(why string, shard int) { t[why] = append(t[why], shard) }

func (t told) each(do func(why string, shards []int)) {
	for _, why := range slices.Sorted(maps.Keys(t)) {
		do(why, t[why])
	}
}

// taskNumbers names tasks: "task 3", "tasks 0-2,7".
func taskNumbers(shards []int) string {
	if len(shards) == 1 {
		return "task " + ranges(shards)
	}
	return "tasks " + ranges(shards)
}

func areTasks(shards []int) string {
	if len(shards) == 1 {
		return taskNumbers(shards) + " is"
	}
	return taskNumbers(shards) + " are"
}
