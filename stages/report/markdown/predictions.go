package markdown

import (
	"fmt"
	"strings"

	"aicplan/sink/base/textutil"
	"aicplan/stages/report/model"
)

// predictions shows what was predicted beside what was measured.
func (b *builder) predictions(r *model.Report) {
	if len(r.Predictions) == 0 {
		return
	}

	b.heading("Predicted and measured")

	for _, c := range r.Predictions {
		b.linef("\n%s, judged by %s: %s.\n", textutil.Cell(c.Predicted), textutil.Cell(c.Gate), c.Result)

		for _, x := range c.Columns {
			b.linef("- %s: error p50 %s (asked %s), p95 %s (asked %s), median of predicted / measured %.3f, of %d",
				textutil.Inline(x.Name),
				model.Percent(x.P50), model.Percent(x.LimitP50), model.Percent(x.P95), model.Percent(x.LimitP95),
				x.Median, x.Compared)
		}

		if text := c.QueueText(); text != "" {
			b.linef("\n%s", text)
		}

		if text := c.WarningText(); text != "" {
			b.linef("\n%s", textutil.Inline(text))
		}

		if len(c.Workloads) == 0 {
			continue
		}

		head, line := "", "|"

		if common := c.Common(); common != "" {
			b.linef("\nAll with %s; times in ms.", textutil.Inline(common))
		}

		for _, k := range c.Varying() {
			head, line = head+" "+textutil.Cell(c.Key[k])+" |", line+"---:|"
		}

		for _, v := range c.Workloads[0].Values {
			head, line = head+fmt.Sprintf(" %s measured | predicted | error |", textutil.Cell(v.Column)), line+"---:|---:|---:|"
		}

		queued := c.Queued()
		if queued {
			head, line = head+" server's queue | server's prefill |", line+"---:|---:|"
		}

		b.linef("\n|%s\n%s", head, line)
		b.list(len(c.Workloads), func(i int) {
			var cells []string
			for _, k := range c.Varying() {
				cells = append(cells, textutil.Cell(c.Workloads[i].Key[k]))
			}

			for _, v := range c.Workloads[i].Values {
				predicted := model.Millis(v.Predicted)
				if v.Predicted == nil {
					predicted = v.Why
				}
				cells = append(cells, model.Millis(v.Measured), predicted, model.Signed(v.Error()))
			}

			if queued {
				cells = append(cells, model.Millis(c.Workloads[i].QueueMs), model.Millis(c.Workloads[i].PrefillMs))
			}

			b.linef("| %s |", strings.Join(cells, " | "))
		})

		if c.More > 0 {
			b.linef("\n%s, not listed.", textutil.Some(c.More, "more workload"))
		}

		for _, w := range c.Workloads {
			for _, p := range w.Phases {
				if p.Kernels == nil {
					continue
				}

				b.linef("\n| %s, %s, ms | predicted | measured | difference |\n|---|---:|---:|---:|",
					textutil.Cell(c.Name(w)), p.Name)

				for _, part := range model.Account(p) {
					predicted := "-"
					if part.Predicted != nil {
						predicted = model.Millis(part.Predicted)
					}
					b.linef("| %s | %s | %s | %s |", textutil.Cell(part.Class), predicted, model.Millis(part.Measured),
						model.Millis(part.Off))
				}
			}
		}
	}
}
