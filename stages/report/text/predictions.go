package text

import (
	"fmt"
	"strings"

	"aicplan/sink/phrase"
	"aicplan/stages/report/model"
)

// predictions shows what was predicted beside what was measured: a line for each
// column of a comparison, and one for each workload.
func (b *builder) predictions(r *model.Report) {
	if len(r.Predictions) == 0 {
		return
	}
	b.heading("Predicted and measured")
	for _, c := range r.Predictions {
		b.item("- ", fmt.Sprintf("%s, judged by %s: %s.", c.Predicted, c.Gate, c.Result))
		for _, x := range c.Columns {
			b.item("  ", fmt.Sprintf("%s: error p50 %s (asked %s), p95 %s (asked %s), median of predicted / measured %.3f, of %d", x.Name,
				model.Percent(x.P50), model.Percent(x.LimitP50), model.Percent(x.P95), model.Percent(x.LimitP95), x.Median, x.Compared))
		}
		if text := c.QueueText(); text != "" {
			b.item("  ", text)
		}
		if text := c.WarningText(); text != "" {
			b.item("  ", text)
		}
		if common := c.Common(); common != "" {
			b.item("  ", "All with "+common+"; times in ms.")
		}
		for _, w := range c.Workloads {
			var values []string
			for _, v := range w.Values {
				values = append(values, fmt.Sprintf("%s %s, predicted %s (%s)", v.Column, model.Millis(v.Measured), model.Millis(v.Predicted), model.Signed(v.Error())))
			}
			if w.QueueMs != nil {
				values = append(values, fmt.Sprintf("server's queue %s, prefill %s", model.Millis(w.QueueMs), model.Millis(w.PrefillMs)))
			}
			b.item("    ", c.Name(w)+": "+strings.Join(values, "; "))
		}
		if c.More > 0 {
			b.item("    ", phrase.Some(c.More, "more workload")+", not listed.")
		}
	}
}
