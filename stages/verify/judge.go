package verify

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// facts are the results of measuring again, without a judgement.
type facts struct {
	sampled, failed    int
	median, p95, worst float64 // NaN without a row, and in records also if it was infinite
	lines              []string
}

// values returns the outputs of the stage. A later run reads the facts from them.
func (f facts) values(passed bool) map[string]cty.Value {
	return map[string]cty.Value{
		"passed": cty.BoolVal(passed), "sampled": cty.NumberIntVal(int64(f.sampled)),
		"failed": cty.NumberIntVal(int64(f.failed)),
		"median": finite(f.median), "p95": finite(f.p95), "worst": finite(f.worst),
	}
}

// factsOf reads the facts of a record. ok is false for records without them.
func factsOf(rec *checkpoint.StageRecord) (f facts, check stage.CheckResult, ok bool) {
	var vals map[string]any
	var checks []stage.CheckResult
	if json.Unmarshal(rec.Values, &vals) != nil || json.Unmarshal(rec.Checks, &checks) != nil || len(checks) != 1 {
		return f, check, false
	}

	read := func(name string) float64 {
		v, known := vals[name].(float64)
		if !known {
			return math.NaN()
		}
		return v
	}

	f = facts{median: read("median"), p95: read("p95"), worst: read("worst"), lines: checks[0].Rows}
	sampled, failed := read("sampled"), read("failed")
	f.sampled, f.failed = int(sampled), int(failed)
	return f, checks[0], !math.IsNaN(sampled + failed)
}

// Judge implements stage.Judge. Limits and severity do not affect what is measured.
func (c *Config) Judge(rec *checkpoint.StageRecord) (stage.Status, string) {
	f, before, ok := factsOf(rec)
	if !ok {
		return stage.Status(rec.Status), ""
	}

	now, status := c.judge(f)
	switch {
	case now.Result != before.Result:
		return status, fmt.Sprintf("its limits changed: %s by them, %s before; nothing is measured", now.Result,
			before.Result)
	case now.Limit != before.Limit || now.Severity != before.Severity:
		return status, "its limits changed; nothing is measured"
	}

	return status, ""
}

// remembered returns the facts of the stage's record if they are of the same rows, measured in the same
// way. If they fail the check as they did before, the rows are measured again.
func (c *Config) remembered(rc *stage.RunContext) (facts, bool) {
	if rc.Store == nil || rc.Key == "" || rc.Options.Again {
		return facts{}, false
	}

	rec, err := rc.Store.ReadStage(rc.Address)
	if err != nil || rec.Key != rc.Key || rec.Replacing != "" {
		return facts{}, false
	}

	f, _, ok := factsOf(rec)
	if !ok || f.sampled == 0 {
		return facts{}, false
	}

	_, status := c.judge(f)
	return f, status != stage.StatusGateFailed || rec.Status != string(stage.StatusGateFailed)
}

// judge compares the facts with the limits.
func (c *Config) judge(f facts) (stage.CheckResult, stage.Status) {
	status := stage.StatusOK
	check := stage.CheckResult{Name: "repeat", Severity: c.Severity, Result: "pass", Rows: f.lines,
		Limit: fmt.Sprintf("median within %.4g %% of 1", 100*c.Median)}
	var broken []string
	if f.sampled == 0 {
		broken = append(broken, "no row could be measured again")
	} else {
		check.Value = fmt.Sprintf("median %.4f, p95 of the deviation %.2f %%", f.median, 100*f.p95)
		check.Message = fmt.Sprintf(
			"%d rows measured again: the median ratio is %.4f, 95 %% deviate by less than %.2f %%, the worst by %.2f %%",
			f.sampled, f.median, 100*f.p95, 100*f.worst)
		if !(math.Abs(f.median-1) <= c.Median) {
			broken = append(broken, fmt.Sprintf("the median is more than %.4g %% off", 100*c.Median))
		}
	}

	if c.P95 > 0 {
		check.Limit += fmt.Sprintf(", p95 within %.4g %%", 100*c.P95)
		if f.sampled > 0 && !(f.p95 <= c.P95) {
			broken = append(broken, fmt.Sprintf("p95 of the deviation is above %.4g %%", 100*c.P95))
		}
	}

	if f.failed > 0 {
		broken = append(broken, fmt.Sprintf("%d rows failed this time", f.failed))
	}

	if len(broken) > 0 {
		check.Result = "fail"
		check.Message = strings.TrimPrefix(check.Message+": "+strings.Join(broken, "; "), ": ")
		check.Fix = "look at the clocks of the worst rows: a power cap or another process changes them; collect again with " +
			"longer idle gaps"
		if c.Severity == "warn" {
			check.Result = "warn"
		} else {
			status = stage.StatusGateFailed
		}
	}

	return check, status
}

// outcome judges the comparison. A failed one is kept too: by wider limits it may
// hold, and the same limits measure again.
func (c *Config) outcome(ds *stage.Dataset, f facts) *stage.Outcome {
	check, status := c.judge(f)
	out := &stage.Outcome{Status: status, Data: ds, Checks: []stage.CheckResult{check},
		Values: f.values(check.Result == "pass")}
	// The rows measured again are evidence, not data: they count for no case.
	out.Counts.Rows = table.Len(ds.Table)
	out.Message = check.Message
	if f.sampled > 0 {
		out.Message = fmt.Sprintf("%d rows again, median ratio %.4f, p95 of the deviation %.2f %%", f.sampled,
			f.median, 100*f.p95)
	}
	return out
}
