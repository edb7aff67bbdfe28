// Package policy decides in which order the cases of a collect are tried, when a case is retried, how long it may
// take, and when a group of cases or the whole collect is given up. It does not execute cases.
package policy

import (
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
