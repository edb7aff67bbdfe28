package tree

import (
	"fmt"
	"slices"
	"strings"
)

// Event is one collection of a table, as schema 2 of a sidecar has them. Rows are
// those that it brought; a later event may have taken the place of some.
type Event struct {
	CollectorRef         string   `yaml:"collector_ref" json:"collector_ref"`
	CollectorHash        string   `yaml:"collector_hash" json:"collector_hash"`
	CasePlanHash         string   `yaml:"case_plan_hash" json:"case_plan_hash"`
	CollectedAt          string   `yaml:"collected_at" json:"collected_at"`
	Rows                 *int64   `yaml:"rows" json:"rows"`
	Status               string   `yaml:"status" json:"status"`
	SourceCampaignRows   *int64   `yaml:"source_campaign_rows,omitempty" json:"source_campaign_rows,omitempty"`
	SourceCampaignStatus string   `yaml:"source_campaign_status,omitempty" json:"source_campaign_status,omitempty"`
	Runtime              *Runtime `yaml:"runtime,omitempty" json:"runtime,omitempty"`
}

// problem is what keeps readers from taking the event, or "".
func (e Event) problem() string {
	for _, f := range []struct{ name, value string }{
		{"collector_ref", e.CollectorRef}, {"collector_hash", e.CollectorHash},
		{"case_plan_hash", e.CasePlanHash}, {"collected_at", e.CollectedAt},
	} {
		if strings.TrimSpace(f.value) == "" {
			return f.name + " must be there"
		}
	}

	switch {
	case e.Rows == nil || *e.Rows < 0:
		return "rows must be a number from 0"
	case e.Status != Complete && e.Status != Partial:
		return fmt.Sprintf("status is %q; it must be complete or partial", e.Status)
	case e.SourceCampaignRows != nil && *e.SourceCampaignRows < *e.Rows:
		return "source_campaign_rows must be at least rows"
	case e.SourceCampaignStatus != "" && e.SourceCampaignStatus != Complete && e.SourceCampaignStatus != Partial:
		return fmt.Sprintf("source_campaign_status is %q; it must be complete or partial", e.SourceCampaignStatus)
	case e.Runtime != nil && (e.Runtime.Framework == "" || e.Runtime.Version == ""):
		return "runtime.framework and runtime.version must be there"
	}

	return ""
}

// checkEvents reports an error if the entry of a table violates schema 2, in which every row has
// evidence of how it was collected.
func (t TableMeta) checkEvents() error {
	switch {
	case t.Rows == nil:
		return fmt.Errorf("rows must be there")
	case len(t.Collections) == 0:
		return fmt.Errorf("collections must list at least one")
	}

	for i, e := range t.Collections {
		if p := e.problem(); p != "" {
			return fmt.Errorf("collections[%d]: %s", i, p)
		}
	}

	return nil
}

// second is the entry as schema 2 has it: the evidence as one event. An entry
// without evidence for all of its rows cannot be one. kept rows of the table were
// there before and belong to earlier events.
func (t TableMeta) second(kept int) (TableMeta, error) {
	e := Event{
		CollectorRef:  t.CollectorRef,
		CollectorHash: t.CollectorHash,
		CasePlanHash:  t.CasePlanHash,
		CollectedAt:   t.CollectedAt,
		Status:        t.Status,
	}
	if t.Rows != nil {
		brought := *t.Rows - int64(kept)
		e.Rows = &brought
	}

	for _, n := range []int64{t.ImportedRows, t.UnknownRows} {
		if n > 0 {
			return TableMeta{}, fmt.Errorf(
				"%d of its rows were not collected by this plan, and schema 2 has an event for every row", n)
		}
	}

	if p := e.problem(); p != "" {
		return TableMeta{}, fmt.Errorf("schema 2 needs evidence: %s", p)
	}

	return TableMeta{Rows: t.Rows, Status: t.Status, Collections: []Event{e}}, nil
}

// after returns the entry after an update of old. Events stay, and an event of the same collection is
// replaced. kept is the number of rows of old that are still in the table.
func (t TableMeta) after(old TableMeta, kept int) TableMeta {
	if kept == 0 {
		return t
	}
	now := t.Collections[len(t.Collections)-1]
	t.Collections = append(slices.DeleteFunc(slices.Clone(old.Collections), func(e Event) bool {
		return e.CollectorRef == now.CollectorRef && e.CollectorHash == now.CollectorHash &&
			e.CasePlanHash == now.CasePlanHash
	}), now)
	return t
}

// upgraded is a sidecar of schema 1 as one of schema 2. The table that is about to
// be written need not have evidence yet, unless its rows stay.
func (m *Meta) upgraded(table string, kept int) (*Meta, error) {
	out := *m
	out.SchemaVersion, out.Tables = 2, map[string]TableMeta{}
	for name, t := range m.Tables {
		if name == table && kept == 0 {
			continue
		}
		second, err := t.second(0)
		if err != nil {
			return nil, fmt.Errorf("tables.%s of schema 1 cannot become schema 2: %w", name, err)
		}
		out.Tables[name] = second
	}

	return &out, nil
}
