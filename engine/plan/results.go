package plan

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// Results returns what expressions may read of a stage that has ended: the number of rows, the digest of its
// table, and the outputs of the kind. Outputs that it did not set are null.
func Results(k stage.Kind, rows int, digest string, values map[string]cty.Value) map[string]cty.Value {
	out := map[string]cty.Value{"rows": cty.NumberIntVal(int64(rows)), "digest": cty.StringVal(digest)}
	for name, t := range k.Outputs {
		out[name] = cty.NullVal(t)
		if v, ok := values[name]; ok {
			out[name] = v
		}
	}

	return out
}

// ResultsOfBad returns what reports may read of a stage that did not end well: the counts of its outcome, and null
// for everything else. Without data, the number of rows is not known.
func ResultsOfBad(k stage.Kind, o *stage.Outcome) map[string]cty.Value {
	if o == nil {
		o = &stage.Outcome{}
	}
	out := Results(k, o.Counts.Rows, "", o.Values)
	out["digest"] = cty.NullVal(cty.String)
	if o.Data == nil {
		out["rows"] = cty.NullVal(cty.Number)
	}
	return out
}

// publish sets the outputs of a stage that is not going to run, so that later stages can be planned with them.
func (p *Plan) publish(s *Stage) {
	switch {
	case s.Action == stage.ActionReady && s.Plan != nil && s.Plan.Data != nil && s.Plan.Data.Table == nil:
		p.Config.SetResult(s.Address(), Results(s.Instance.Kind, table.Len(s.Plan.Data.Planned), s.Output, nil))
	case s.Action == stage.ActionReuse && s.Record != nil:
		out, err := ReadOutcome(s.Record)
		if err != nil {
			return // the run reports the error in the record
		}
		p.Config.SetResult(s.Address(), Results(s.Instance.Kind, out.Counts.Rows, s.Record.Outputs.Table, out.Values))
	}
}

// MarshalValues encodes outputs with their types for a stage record.
func MarshalValues(vals map[string]cty.Value) (json.RawMessage, error) {
	if len(vals) == 0 {
		return nil, nil
	}
	raw := map[string]ctyjson.SimpleJSONValue{}
	for name, v := range vals {
		raw[name] = ctyjson.SimpleJSONValue{Value: v}
	}
	return json.Marshal(raw)
}

// ReadOutcome returns the outcome that a record describes.
func ReadOutcome(rec *checkpoint.StageRecord) (*stage.Outcome, error) {
	out := &stage.Outcome{Status: stage.Status(rec.Status), Message: rec.Message, Values: map[string]cty.Value{}}
	var values map[string]ctyjson.SimpleJSONValue
	err := cmp.Or(readPart("counts", rec.Counts, &out.Counts), readPart("checks", rec.Checks, &out.Checks),
		readPart("artifacts", rec.Artifacts, &out.Artifacts), readPart("values", rec.Values, &values))
	if err != nil {
		return nil, err
	}
	for name, v := range values {
		out.Values[name] = v.Value
	}
	return out, nil
}

// ReadArtifacts returns the files that a record lists.
func ReadArtifacts(rec *checkpoint.StageRecord) ([]stage.Artifact, error) {
	var out []stage.Artifact
	err := readPart("artifacts", rec.Artifacts, &out)
	return out, err
}

// ReadInfo returns the description of a stage's data in its record.
func ReadInfo(rec *checkpoint.StageRecord) (stage.Info, error) {
	var info stage.Info
	err := readPart("info", rec.Info, &info)
	return info, err
}

func readPart(name string, raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("its %s cannot be read: %w", name, err)
	}
	return nil
}

// ReadableRecord returns an error if a record cannot be used; see checkpoint.Options. Otherwise every run that
// reads it would fail.
func ReadableRecord(rec *checkpoint.StageRecord) error {
	if _, err := ReadOutcome(rec); err != nil {
		return err
	}
	_, err := ReadInfo(rec)
	return err
}
