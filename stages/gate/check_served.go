package gate

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/zclconf/go-cty/cty"

	"aicplan/sink/table"
)

// served compares the kernels that a traced server ran with the kernels of rows. It reports rows whose
// kernels never ran, and kernels of the server that no row has.
//
// The input is a collect on a server runtime with a trace block, whose column "kernels" has the time of each
// kernel. The rows come from python runtimes with kernels = true.
type served struct {
	// Rows (reference or list of references) are the stages whose rows claim to measure what the server runs.
	Rows cty.Value `hcl:"rows" json:"-"`
	// MaxRows is the largest accepted share of rows with a kernel that the server did not run.
	MaxRows float64 `hcl:"max_rows,optional" json:"max_rows"`
	// MaxTime is the largest accepted share of the server's kernel time in kernels that no row has.
	MaxTime float64 `hcl:"max_time,optional" json:"max_time"`
	// Ignore lists regular expressions for names of kernels that count on neither side.
	Ignore []string `hcl:"ignore,optional" json:"ignore,omitempty"`

	References
	ignore []*regexp.Regexp
}

// kernelsColumn has the kernels of a row as a JSON object by name.
const kernelsColumn = "kernels"

func (c *served) columns() []string { return []string{kernelsColumn} }

func (c *served) prepare(bad problems) {
	c.addAll("rows", c.Rows, bad)
	bad.negative("max_rows", c.MaxRows)
	bad.negative("max_time", c.MaxTime)
	for _, text := range c.Ignore {
		re, err := regexp.Compile(text)
		if err != nil {
			bad("Wrong regular expression", "ignore: %v", err)
			continue
		}
		c.ignore = append(c.ignore, re)
	}
}

// kernelsOf parses the column "kernels" of a row. It returns nil if the row has none.
func (c *served) kernelsOf(col arrow.Array, row int) (map[string]float64, error) {
	if col == nil || col.IsNull(row) {
		return nil, nil
	}

	var out map[string]float64
	if err := json.Unmarshal([]byte(table.Text(col, row)), &out); err != nil {
		return nil, fmt.Errorf("kernels is no JSON object of numbers: %w", err)
	}

	maps.DeleteFunc(out, func(name string, _ float64) bool {
		return slices.ContainsFunc(c.ignore, func(re *regexp.Regexp) bool { return re.MatchString(name) })
	})
	return out, nil
}

func (c *served) run(s *subject) finding {
	col := column(s.rec, kernelsColumn)
	if col == nil {
		return s.cannot(`the data has no column "kernels"; collects on a server runtime with a trace block have it`)
	}

	// What ran on the server.
	v := finding{
		limit: fmt.Sprintf("%s of the rows, %s of the time", percent(c.MaxRows), percent(c.MaxTime)),
		total: s.rows(),
	}
	times, total := map[string]float64{}, 0.0
	for row := range table.Len(s.rec) {
		names, err := c.kernelsOf(col, row)
		if err != nil {
			return failed(s.describe(row) + ": " + err.Error())
		}
		if names == nil {
			v.left.row(row, "it has no kernels")
		}

		for name, ms := range names {
			times[name] += ms
			total += ms
		}
	}

	if !(total > 0) {
		return s.cannot("the server's rows have no kernels: trace_error has the reason")
	}

	// What the rows measured. A row counts as served if the server ran all of its kernels.
	known, absent, example := map[string]bool{}, map[string]int{}, map[string]string{}
	rows, unserved := 0, 0
	for i, ds := range s.others {
		if ds == nil || ds.Table == nil {
			continue
		}
		if why := otherVersion(s.rec, ds.Table); why != "" {
			return failed(fmt.Sprintf("%s: %s", c.refs[i].Address, why))
		}

		of := &subject{ds: ds, rec: ds.Table}
		col := column(ds.Table, kernelsColumn)
		v.total += table.Len(ds.Table)

		for row := range table.Len(ds.Table) {
			names, err := c.kernelsOf(col, row)
			switch {
			case err != nil:
				return failed(of.describe(row) + ": " + err.Error())
			case names == nil:
				v.left.add(1, "rows of "+c.refs[i].Address+" name no kernels")
				continue
			}

			rows++
			ran := true
			for name := range names {
				known[name] = true
				if _, ok := times[name]; ok {
					continue
				}
				ran = false
				if absent[name]++; absent[name] == 1 {
					example[name] = c.refs[i].Address + " " + of.describe(row)
				}
			}
			if !ran {
				unserved++
			}
		}
	}

	if rows == 0 {
		return v
	}

	uncovered := 0.0
	for name, ms := range times {
		if known[name] {
			delete(times, name)
		} else {
			uncovered += ms
		}
	}

	share, time := float64(unserved)/float64(rows), uncovered/total
	v.ok = share <= c.MaxRows && time <= c.MaxTime
	v.value = fmt.Sprintf("%s of the rows, %s of the time", percent(share), percent(time))
	v.message = fmt.Sprintf(
		"%d of %d rows have a kernel that the server did not run; %s of its kernel time is in kernels without a row",
		unserved,
		rows,
		percent(time),
	)
	if !v.ok {
		v.fix = "compare rows of the shapes that the traced requests have; if shapes agree and kernels do not, the " +
			"collector or the server chooses another backend"
	}

	for _, name := range byCount(absent) {
		v.rows = append(v.rows, fmt.Sprintf("not run by the server: %s (%d rows, such as %s)", shortName(name), absent[name],
			example[name]))
	}
	for _, name := range byCount(times) {
		v.rows = append(v.rows, fmt.Sprintf("without a row: %s (%s of the kernel time)", shortName(name),
			percent(times[name]/total)))
	}

	return v
}

// unknown are the versions of runtimes that report none.
var unknown = []string{"", "unknown"}

// otherVersion returns why the rows and the server are of different software, or "".
func otherVersion(server, rows arrow.Record) string {
	a, b := column(server, "version"), column(rows, "version")
	if a == nil || b == nil || a.Len() == 0 || b.Len() == 0 {
		return ""
	}

	x, y := table.Text(a, 0), table.Text(b, 0)
	if x == y || slices.Contains(unknown, x) || slices.Contains(unknown, y) {
		return ""
	}
	return fmt.Sprintf("the rows have the version %s and the server has %s", y, x)
}

// shortName abbreviates the name of a kernel, whose template arguments may take a thousand characters.
func shortName(name string) string {
	const longest = 160
	if len(name) <= longest {
		return name
	}
	return strings.ToValidUTF8(name[:longest-40], "") + "..." + strings.ToValidUTF8(name[len(name)-37:], "")
}
