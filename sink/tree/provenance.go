package tree

import "go.yaml.in/yaml/v3"

// Provenances of a sidecar. Readers treat legacy as unknown and accept every other word.
const (
	Legacy    = "legacy"
	Collected = "collected" // every row was measured for this table
	Imported  = "imported"  // every row comes from a file that was there before
	Mixed     = "mixed"
)

// OriginOf returns the origin of the rows of one table: Collected, Imported or Mixed, or "" if it is unknown.
// Entries without counts are collected, unless the sidecar has no provenance or is a legacy one.
func (m *Meta) OriginOf(table string) string {
	t, ok := m.Tables[table]
	switch {
	case !ok:
		return ""
	case t.UnknownRows > 0 || t.CollectedRows > 0 && t.ImportedRows > 0:
		return Mixed
	case t.ImportedRows > 0:
		return Imported
	case t.CollectedRows > 0:
		return Collected
	case m.Provenance == "" || m.Provenance == Legacy:
		return ""
	}

	return Collected
}

// Together returns the common provenance of all tables, or Mixed if they differ. A sidecar without provenance
// stays without it until a table has rows that were not collected.
func (m *Meta) Together() string {
	words, silent := map[string]bool{}, false
	for name := range m.Tables {
		if w := m.OriginOf(name); w != "" {
			words[w] = true
		} else {
			silent = true
		}
	}

	switch {
	case words[Mixed], words[Imported] && (words[Collected] || silent):
		return Mixed
	case words[Imported]:
		return Imported
	case words[Collected] && (m.Provenance == Imported || m.Provenance == Mixed):
		return Collected
	}

	return m.Provenance
}

// setProvenance sets the word, after schema_version if it is new.
func setProvenance(root *yaml.Node, word string) {
	if node := child(root, "provenance"); node != nil {
		node.SetString(word)
		return
	}
	at := 0
	for i := 0; i < len(root.Content); i += 2 {
		if root.Content[i].Value == "schema_version" {
			at = i + 2
		}
	}

	insert(root, at, "provenance", nodeOf(word))
}
