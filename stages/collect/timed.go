package collect

import (
	"fmt"
	"math"
	"time"

	"aicplan/sink/base/textutil"
)

// timed compares the estimated time of the largest task with the time limit of a task, and adds a
// warning if it is longer.
func (p *planning) timed() {
	limit, usable := p.place.Limit.Seconds(), (p.place.Limit - p.place.Drain).Seconds()
	if limit == 0 || p.counts.Seconds <= 0 {
		return
	}
	// Seconds assumes jobs that run in parallel.
	each := p.counts.Seconds * float64(p.plan.Request.AtOnce) / float64(p.counts.Collect)
	needs := each * float64(p.jobs.largest)
	p.plan.Request.TaskSeconds, p.plan.Request.TaskLimit = needs, usable
	if needs <= usable {
		return
	}

	where := fmt.Sprintf("%s (%s:%d)", p.place.Address, p.place.Range.Filename, p.place.Range.Start.Line)
	has := fmt.Sprintf("a task takes cases for %s (time %s less drain)", span(usable), span(limit))
	// A case that is running when the signal arrives may also use the drain time.
	if alone := each * float64(max(1, p.atOnce)); alone > limit {
		p.warn(
			"%s: a single case is estimated to take %s, and %s, so tasks may end without any row: raise time to %s or more",
			where,
			span(alone),
			has,
			enough(alone, p.place.Drain),
		)
		return
	}

	p.warn(
		"%s: the largest task has %s, estimated to take %s, and %s: it would be started again %d times; more tasks, or "+
			"time %q, would fit",
		where,
		textutil.Some(p.jobs.largest, "case"),
		span(needs),
		has,
		int(math.Ceil(needs/usable))-1,
		enough(needs, p.place.Drain),
	)
}

// enough returns a time limit in Slurm's notation for so many seconds of cases.
func enough(seconds float64, drain time.Duration) string {
	minutes := int64(math.Ceil((seconds + drain.Seconds()) / 60))
	text := fmt.Sprintf("%02d:%02d:00", minutes/60%24, minutes%60)
	if days := minutes / (24 * 60); days > 0 {
		text = fmt.Sprintf("%d-%s", days, text)
	}
	return text
}

// span formats seconds like textutil.Duration, with fractions below a minute.
func span(seconds float64) string {
	if math.Round(seconds) < 60 {
		return fmt.Sprintf("%.3gs", seconds)
	}
	return textutil.Duration(seconds)
}
