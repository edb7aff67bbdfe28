package report

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tidwall/gjson"

	"aicplan/cudaops/load/aiperf"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/report/model"
)

// largestRecords is the size in bytes above which the records of a load point are not read: a report shows
// nothing that a million requests do not show as well as ten thousand.
const largestRecords = 64 << 20

// readRequestsOf reads when the requests of the load points in the tables started and ended. Records that are
// missing, invalid or too large are left out, and named by the error.
func readRequestsOf(store *checkpoint.Store, tables []model.TableInput) ([]model.Requests, error) {
	var out []model.Requests
	lost, err := eachAttachment(tables, aiperf.Records, func(t model.TableInput, row int, a stage.Attachment) error {
		if a.Bytes > largestRecords {
			return fmt.Errorf("%d bytes are more than a report reads", a.Bytes)
		}

		raw, err := store.GetBytes(a.Digest)
		if err != nil {
			return err
		}

		r := model.Requests{Table: t.Address, Row: row}
		if err := readRequests(raw, &r); err != nil {
			return err
		}

		if len(r.Start) > 0 {
			out = append(out, r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	return out, errors.Join(lost...)
}

// eachAttachment calls read for each attachment of that name of the rows of the tables. It returns the errors of
// the attachments that could not be read.
func eachAttachment(tables []model.TableInput, name string, read func(t model.TableInput, row int,
	a stage.Attachment) error) (lost []error, err error) {
	for _, t := range tables {
		if t.Data == nil || t.Data.Table == nil || !table.Has(t.Data.Table, stage.AttachmentsColumn) {
			continue
		}

		for row := range table.Len(t.Data.Table) {
			list, err := stage.Attachments(t.Data.Table, row)
			if err != nil {
				return nil, err
			}

			for _, a := range list {
				if a.Name != name {
					continue
				}
				if err := read(t, row, a); err != nil {
					lost = append(lost, fmt.Errorf("%s of row %d of %s: %w", name, row+1, t.Address, err))
				}
			}
		}
	}

	return lost, nil
}

// readRequests adds the profiled requests of a records file, in order of their start.
func readRequests(raw []byte, r *model.Requests) error {
	type request struct {
		start          int64
		first, latency gjson.Result
	}

	var all []request
	n := 0
	for line := range bytes.Lines(raw) {
		n++
		if !gjson.ValidBytes(line) || !gjson.ParseBytes(line).IsObject() {
			return fmt.Errorf("line %d is no JSON object", n)
		}

		v := gjson.GetManyBytes(line, "metadata.benchmark_phase", "metadata.request_start_ns",
			"metrics.time_to_first_token.value", "metrics.request_latency.value")
		for _, number := range v[1:] {
			if number.Type != gjson.Number && number.Type != gjson.Null {
				return fmt.Errorf("line %d: a time has the type %s and not that of a number", n, number.Type)
			}
		}

		if v[0].Str == aiperf.Profiling && v[3].Type == gjson.Number {
			all = append(all, request{v[1].Int(), v[2], v[3]})
		}
	}

	slices.SortStableFunc(all, func(a, b request) int { return cmp.Compare(a.start, b.start) })
	for _, q := range all {
		start, first := float64(q.start-all[0].start)/1e9, math.NaN()
		if q.first.Type == gjson.Number {
			first = start + q.first.Num/1000
		}
		r.Start, r.First = append(r.Start, start), append(r.First, first)
		r.End = append(r.End, start+q.latency.Num/1000)
	}
	return nil
}
