package gate

import "fmt"

// flagged checks a measured column of 0 and 1: at most the share most of the rows with a value may be
// bad. judged is the number of these rows. If it is 0, or the column is missing, the finding is complete
// and the caller returns it.
func (s *subject) flagged(name, unsaid string, most float64, isBad func(v float64) bool) (out finding,
	bad []offender, judged int) {
	if column(s.rec, name) == nil {
		return s.cannot(fmt.Sprintf("the data has no column %q: only measured rows carry it", name)), nil, 0
	}

	flags, err := numbers(s.rec, name)
	if err != nil {
		return s.cannot(err.Error()), nil, 0
	}

	out = finding{limit: "at most " + percent(most), total: s.selected}
	for i, v := range flags.val {
		switch {
		case !s.has(i):
		case flags.null[i]:
			out.left.row(i, unsaid)
		case isBad(v):
			bad = append(bad, offender{row: i})
		}
	}

	if judged = s.selected - out.left.count(); judged > 0 {
		share := float64(len(bad)) / float64(judged)
		out.ok, out.value = share <= most, percent(share)
	}

	return out, bad, judged
}
