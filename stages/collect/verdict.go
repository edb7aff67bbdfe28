package collect

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
)

// info returns the description of the rows as a whole.
func (r *running) info() stage.Info {
	cases := r.planned.cases
	info := stage.Info{
		Op: r.planned.info.Op, Perf: r.perfTable(r.planned.info.Perf), Declared: r.planned.info.Declared,
		Params:    slices.Concat(cases.Columns(), cases.SweepColumns()),
		Framework: r.env.Framework, Version: r.env.Version, Device: r.env.Device, System: r.system,
		Runtime: r.runtime.Address, Image: r.runtime.Image, ImageDigest: r.runtime.ImageDigest, Env: maps.Clone(r.env.Env),
	}

	classes := r.classes()
	switch {
	case truncated(cases.Len(), r.rc.Options):
		info.Partial = r.rc.Options.Partial()
	case classes["interrupted"] > 0:
		info.Partial = "interrupted"
	case classes["ramp"] > 0:
		info.Partial = "ramp"
	case classes[lostClass] > 0:
		info.Partial = "tasks lost"
	}

	return info
}

// classes counts the units without a measurement by class, once the results are loaded.
func (r *running) classes() map[string]int {
	if r.byClass != nil {
		return r.byClass
	}

	out := map[string]int{}
	for i := range r.job.units {
		switch u := &r.job.units[i]; u.state {
		case failed:
			class, _ := classify(r.rules, r.job.stored.failures[i].Failure)
			out[class]++
		case skipped:
			out[u.class()]++
		}
	}

	r.byClass = out
	return out
}

// verdict returns the status of the stage and the reason in one line.
func (r *running) verdict(n stage.Counts) (stage.Status, string) {
	byClass := r.classes()

	// Cases that were not selected or have no kernel are not missing.
	left := byClass["not_selected"]
	for i := range r.job.units {
		if u := &r.job.units[i]; u.state == skipped && u.class() != "not_selected" && u.noKernel() != "" {
			left++
		}
	}

	text := fmt.Sprintf("%d of %d cases measured", n.Measured, n.Planned)
	if n.Measured-r.now > 0 && r.now > 0 {
		text += fmt.Sprintf(" (%d now, %d before)", r.now, n.Measured-r.now)
	}

	var parts []string
	for _, class := range slices.Sorted(maps.Keys(byClass)) {
		parts = append(parts, fmt.Sprintf("%d %s", byClass[class], class))
	}

	if len(parts) > 0 {
		text += "; " + strings.Join(parts, ", ")
	}

	switch {
	case r.policy != nil || n.Failed == 0:
	case byClass["tripped"] > 0:
		text += "; failed before and not tried again (--retry failed or tripped does)"
	default:
		text += "; failed before and not tried again (--retry failed does)"
	}

	switch {
	case byClass["interrupted"] > 0:
		return stage.StatusInterrupted, text
	case n.Failed > 0 && n.Measured == 0:
		return stage.StatusFailed, text + r.stopText()
	case r.overFailed(n.Measured, n.Failed):
		return stage.StatusFailed, fmt.Sprintf("%s; more than fail_over = %v failed%s", text, r.FailOver, r.stopText())
	case n.Failed > 0 || n.Skipped > left:
		return stage.StatusPartial, text + r.stopText()
	}

	return stage.StatusOK, text
}

// overFailed reports whether the share of failed cases exceeds fail_over.
func (c *Config) overFailed(measured, failed int) bool {
	tried := measured + failed
	return tried > 0 && float64(failed)/float64(tried) > c.FailOver
}

// Judge implements stage.Judge. It applies fail_over to a stored result, because fail_over is not part
// of the measurement.
func (c *Config) Judge(rec *checkpoint.StageRecord) (stage.Status, string) {
	was := stage.Status(rec.Status)
	var n stage.Counts
	if err := json.Unmarshal(rec.Counts, &n); err != nil {
		return was, ""
	}
	if measured := n.Measured + n.Reused; was != stage.StatusFailed && c.overFailed(measured, n.Failed) {
		return stage.StatusFailed, fmt.Sprintf("%d of %d cases failed, more than fail_over = %v allows", n.Failed,
			measured+n.Failed, c.FailOver)
	}
	return was, ""
}

// stopText returns a suffix with the reason why the ramp stopped, or "".
func (r *running) stopText() string {
	if r.policy == nil || r.policy.stopped == "" {
		return ""
	}
	return "; " + r.policy.stopped
}
