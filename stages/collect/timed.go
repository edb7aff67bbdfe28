package collect

import (
	"fmt"
	"math"
	"time"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

// timed compares the estimated time of the largest task with the time limit of a task, and adds a
// warning if it is longer.
func (c *Config) timed(d *jobSplit, counts *stage.CaseCounts, workers int, p *stage.Plan) {
	if c.place.Limit == 0 || counts.Seconds <= 0 || counts.Collect == 0 {
		return
	}
	// Seconds assumes jobs that run in parallel.
	each := counts.Seconds * float64(p.Request.AtOnce) / float64(counts.Collect)
	p.Request.TaskSeconds = each * float64(d.largest)
	p.Request.TaskLimit = (c.place.Limit - c.place.Drain).Seconds()
	if text := c.tooLong(d, each, workers); text != "" {
		p.Warnings = append(p.Warnings, text)
	}
}

// tooLong returns a warning if the largest task does not end within its time limit,
// given the seconds that a task needs for each case, and its number of workers.
func (c *Config) tooLong(d *jobSplit, each float64, workers int) string {
	usable := (c.place.Limit - c.place.Drain).Seconds()
	needs := each * float64(d.largest)
	if needs <= usable {
		return ""
	}

	where := fmt.Sprintf("%s (%s:%d)", c.place.Address, c.place.Range.Filename, c.place.Range.Start.Line)
	has := fmt.Sprintf("a task takes cases for %s (time %s less drain)", span(usable), span(c.place.Limit.Seconds()))
	// A case that is running when the signal arrives may also use the drain time.
	if alone := each * float64(max(1, workers)); alone > c.place.Limit.Seconds() {
		return fmt.Sprintf("%s: a single case is estimated to take %s, and %s, so tasks may end without any row: raise time to %s or more",
			where, span(alone), has, enough(alone, c.place.Drain))
	}

	return fmt.Sprintf("%s: the largest task has %s, estimated to take %s, and %s: it would be started again %d times; more tasks, or time %q, would fit",
		where, textutil.Some(d.largest, "case"), span(needs), has, int(math.Ceil(needs/usable))-1, enough(needs, c.place.Drain))
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
