package model

import (
	"fmt"

	"aicplan/sink/base/textutil"
	"aicplan/stages/gate/results"
)

// evidence gathers how the data was validated: gates and verifications of the
// run, then what the author states.
func (r *Report) evidence(in Input) {
	kinds := map[string]string{}
	for _, f := range in.Finished {
		kinds[f.Address] = f.Kind
	}

	for _, g := range r.Gates {
		c := results.Count([]results.Group{g})
		e := Evidence{Name: g.Address, Command: "aicplan apply: " + kinds[g.Address], Level: Good}

		all, pass := c.Passed+c.Failed+c.Warned, "pass"
		if all == 1 {
			pass = "passes"
		}

		e.Result = fmt.Sprintf("%d of %s %s", c.Passed, textutil.Counted(all, "check"), pass)
		if c.Skipped > 0 {
			e.Result += fmt.Sprintf(", %d not judged", c.Skipped)
		}

		switch {
		case c.Failed > 0 || LevelOf(g.Status) == Bad:
			e.Level = Bad
		case c.Warned > 0:
			e.Level = Warn
		}

		var bad []string
		for _, x := range g.Checks {
			if x.Result == "fail" || x.Result == "warn" {
				bad = append(bad, x.Name)
			}
		}

		if len(bad) > 0 {
			e.Result += "; not: " + List(bad, 4)
		}

		r.Evidence = append(r.Evidence, e)
	}

	for _, t := range r.Tables {
		if ref := t.Reference; ref != nil {
			e := Evidence{Name: t.Name + " against " + ref.A.Name, Command: "aicplan apply: report reference", Level: Good}
			e.Result = fmt.Sprintf("%s rows in common, %s only here, %s only there", textutil.Count(int64(ref.Common)),
				textutil.Count(int64(ref.Added)), textutil.Count(int64(ref.Removed)))
			if ref.Ratio != nil {
				e.Result += fmt.Sprintf("; ratio %.3f / %.3f / %.3f (p5, p50, p95)", ref.Ratio.P5, ref.Ratio.P50, ref.Ratio.P95)
			} else {
				e.Level = Warn
			}
			r.Evidence = append(r.Evidence, e)
		}
	}
}
