package plan

import (
	"encoding/json"
	"fmt"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
)

// ReadOutcome returns the outcome that a record describes.
func ReadOutcome(rec *checkpoint.StageRecord) (*stage.Outcome, error) {
	out := &stage.Outcome{Status: stage.Status(rec.Status), Message: rec.Message}
	if err := readPart("counts", rec.Counts, &out.Counts); err != nil {
		return nil, err
	}
	if err := readPart("checks", rec.Checks, &out.Checks); err != nil {
		return nil, err
	}
	var err error
	if out.Artifacts, err = ReadArtifacts(rec); err != nil {
		return nil, err
	}
	if out.Values, err = UnmarshalValues(rec.Values); err != nil {
		return nil, fmt.Errorf("its values cannot be read: %w", err)
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
