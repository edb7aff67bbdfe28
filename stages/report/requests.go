package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

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
	type value struct {
		Value *float64 `json:"value"`
	}
	type record struct {
		Metadata struct {
			Start int64  `json:"request_start_ns"`
			Phase string `json:"benchmark_phase"`
		} `json:"metadata"`
		Metrics struct {
			FirstToken value `json:"time_to_first_token"`
			Latency    value `json:"request_latency"`
		} `json:"metrics"`
	}

	var all []record
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, len(raw)+1)
	for n := 1; lines.Scan(); n++ {
		var rec record
		if err := json.Unmarshal(lines.Bytes(), &rec); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if rec.Metadata.Phase == "profiling" && rec.Metrics.Latency.Value != nil {
			all = append(all, rec)
		}
	}

	slices.SortStableFunc(all, func(a, b record) int { return int(a.Metadata.Start - b.Metadata.Start) })
	for _, rec := range all {
		start, first := float64(rec.Metadata.Start-all[0].Metadata.Start)/1e9, math.NaN()
		if v := rec.Metrics.FirstToken.Value; v != nil {
			first = start + *v/1000
		}
		r.Start, r.First = append(r.Start, start), append(r.First, first)
		r.End = append(r.End, start+*rec.Metrics.Latency.Value/1000)
	}

	return lines.Err()
}
