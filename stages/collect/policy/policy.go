// Package policy decides in which order the cases of a collect are tried, when a case is retried, how long it may
// take, and when a group of cases or the whole collect is given up. It does not execute cases.
package policy

import (
	"fmt"
	"math"
	"time"

	"aicplan/cudaops/worker"
)

// Limits is the failure policy of a collect.
type Limits struct {
	// Ramp lists the sizes of the samples that must pass before all cases run.
	Ramp []int
	// GroupBy lists the columns whose values form a group.
	GroupBy []string `json:"group_by"`
	// TripAfter is the number of failures from the first case on that stops a group. Zero disables the breaker.
	TripAfter int `json:"after"`
	// Transient, OOM, Timeout and Crash are numbers of retries by cause.
	Transient, OOM, Timeout, Crash int
	// First is the deadline until some cases are measured. Later, a deadline is Factor times the longest case, and at
	// least Floor.
	Floor, First worker.Duration
	Factor       float64
}

// Defaults returns the limits of a collect without policy blocks.
func Defaults() Limits {
	return Limits{TripAfter: 20, Transient: 1, OOM: 1,
		Floor: worker.Duration(2 * time.Minute), First: worker.Duration(30 * time.Minute), Factor: 10}
}

// Retry returns the reason to retry a failed case, or "". tries counts the earlier retries of the case by reason.
func (l *Limits) Retry(class string, oom bool, cause worker.Cause, tries map[string]int) string {
	why, most := "", 0
	switch {
	case class == worker.ClassTransient:
		why, most = "transient", l.Transient
	case oom:
		why, most = "out of memory", l.OOM
	case cause == worker.CauseHung:
		why, most = "timeout", l.Timeout
	case cause == worker.CauseDied:
		why, most = "crash", l.Crash
	}

	if tries[why] >= most {
		return ""
	}
	return why
}

// Deadlines derives the deadline of cases from the durations of earlier ones.
type Deadlines struct {
	limits  *Limits
	longest time.Duration
	known   int // number of cases
}

// enough is the number of cases after which Limits.First does not apply any more.
const enough = 5

// mostDeadline is the longest deadline in nanoseconds, about 31 years. The product of a long case and a large factor
// does not fit into a duration.
const mostDeadline = 1e18

// Add adds the duration of a case in seconds.
func (d *Deadlines) Add(seconds float64) {
	d.known++
	d.longest = max(d.longest, time.Duration(seconds*float64(time.Second)))
}

// Next returns the maximum duration of the next case.
func (d *Deadlines) Next() time.Duration {
	least := d.limits.Floor
	if d.known < enough {
		least = d.limits.First
	}
	return max(time.Duration(least), time.Duration(min(float64(d.longest)*d.limits.Factor, mostDeadline)))
}

// Past counts the cases of a group that earlier runs have finished.
type Past struct{ Measured, Failed int }

// Breaker stops groups of cases that fail from their first case on. Groups are numbered.
type Breaker struct {
	after  int
	names  []string
	groups []group
}

type group struct {
	measured int // cases, including earlier runs
	earlier  int // failures of earlier runs
	failures int // in this run, before the first measured case
	out      int // handed out and not ended
	tripped  string
	last     string // message of the last failure
}

// NewBreaker returns a breaker that stops a group after so many failures; zero never does. names are those of the
// groups, such as "gemm_dtype=fp8".
func NewBreaker(after int, names []string, past []Past) *Breaker {
	b := &Breaker{after: after, names: names, groups: make([]group, len(names))}
	for i, p := range past {
		b.groups[i] = group{measured: p.Measured, earlier: p.Failed}
	}
	return b
}

// Measured records a measured case of a group.
func (b *Breaker) Measured(no int) { b.groups[no].measured++ }

// Failed records a failed case of a group. It returns the reason if the group is stopped now, and "" otherwise.
func (b *Breaker) Failed(no int, message string) string {
	g := &b.groups[no]
	g.last = message
	if g.measured > 0 {
		return ""
	}

	g.failures++
	if b.after == 0 || g.earlier+g.failures < b.after || g.tripped != "" {
		return ""
	}
	g.tripped = TripText(b.names[no], g.earlier+g.failures, message)
	return g.tripped
}

// room returns how many more cases of a group may be handed out. Workers queue many cases, so a group that was never
// measured gets no more than the breaker allows to fail.
func (b *Breaker) room(g *group) int {
	if b.after == 0 || g.measured > 0 {
		return math.MaxInt
	}
	return max(0, max(1, b.after-g.earlier-g.failures)-g.out)
}

// TripText returns the reason why a group is not tried any further.
func TripText(group string, failures int, last string) string {
	return fmt.Sprintf("%s failed %d times from its first case on; the last time: %s", groupText(group), failures, last)
}

func groupText(name string) string {
	if name == "" {
		return "the op"
	}
	return name
}
