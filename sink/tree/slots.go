package tree

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Files beside the data folder and the specs of systems, since aiconfigurator
// 0.12: which versions can be asked for, and which attention kernel is a
// framework's own choice.
const (
	SlotsFile = "query_versions.yaml"
	LanesFile = "attention_lane_defaults.yaml"
)

// Slots is a query_versions.yaml: for every backend the versions that can be asked
// for by name, on all systems or on one.
type Slots struct {
	SchemaVersion int                        `yaml:"schema_version"`
	Defaults      map[string]Slot            `yaml:"defaults"`
	Overrides     map[string]map[string]Slot `yaml:"overrides"`
}

// Slot is the newest complete version and the one before it.
type Slot struct {
	Current  string  `yaml:"current"`
	Previous *string `yaml:"previous"`
}

// SlotPlace is a slot with its place in the file.
type SlotPlace struct {
	System  string // "" for all systems without an override
	Backend string
	Slot    Slot
}

// ParseSlots reads the text of a query_versions.yaml. Readers that cannot read it
// switch the slots off without a word, so unknown words are errors here.
func ParseSlots(data []byte) (*Slots, error) {
	var s Slots
	if err := decodeOne(data, &s, true); err != nil {
		return nil, fmt.Errorf("it is not a valid %s: %w", SlotsFile, err)
	}
	if s.SchemaVersion != 1 {
		return nil, fmt.Errorf("schema_version is %d; 1 is known", s.SchemaVersion)
	}

	for _, p := range s.Places() {
		switch prev := p.Slot.Previous; {
		case p.Slot.Current == "":
			return nil, fmt.Errorf("%s has no current version", p)
		case prev != nil && CompareVersions(*prev, p.Slot.Current) >= 0:
			return nil, fmt.Errorf("%s has the previous version %s, which is not older than the current one, %s", p,
				*prev, p.Slot.Current)
		}
	}

	return &s, nil
}

// of returns the slot of a backend on a system.
func (s *Slots) of(system, backend string) (Slot, bool) {
	now, ok := s.Overrides[system][backend]
	if !ok {
		now, ok = s.Defaults[backend]
	}
	return now, ok
}

// Places lists all slots in order.
func (s *Slots) Places() []SlotPlace {
	var out []SlotPlace
	for _, b := range slices.Sorted(maps.Keys(s.Defaults)) {
		out = append(out, SlotPlace{"", b, s.Defaults[b]})
	}

	for _, system := range slices.Sorted(maps.Keys(s.Overrides)) {
		for _, b := range slices.Sorted(maps.Keys(s.Overrides[system])) {
			out = append(out, SlotPlace{system, b, s.Overrides[system][b]})
		}
	}

	return out
}

// String names the place as the file has it.
func (p SlotPlace) String() string {
	if p.System == "" {
		return "defaults." + p.Backend
	}

	return "overrides." + p.System + "." + p.Backend
}

// NextSlots returns the text of a query_versions.yaml in which a backend's version is the
// current one of one system; the present current version becomes the previous one. Other
// entries and comments stay. An older version is an error, because readers would no longer
// find the newer one.
func NextSlots(data []byte, system, backend, version string) ([]byte, error) {
	if data == nil {
		data = []byte("schema_version: 1\n")
	}
	s, err := ParseSlots(data)
	if err != nil {
		return nil, err
	}
	now, ok := s.of(system, backend)
	slot := Slot{Current: version}
	if ok {
		switch n := CompareVersions(version, now.Current); {
		case n == 0:
			return data, nil
		case n < 0:
			return nil, fmt.Errorf("%s %s is current on %s, and %s is older", backend, now.Current, system, version)
		}

		slot.Previous = &now.Current
	}

	return edited(data, func(root *yaml.Node) {
		at := mapping(mapping(root, "overrides"), system)
		value := nodeOf(slot)
		value.Style = yaml.FlowStyle
		if old := child(at, backend); old != nil {
			*old = *value
		} else {
			insert(at, len(at.Content), backend, value)
		}
	})
}

// Lanes are the attention kernels that a framework chooses by itself, by backend, version
// and SM.
type Lanes map[string]map[string]map[string]string

// ParseLanes reads the text of an attention_lane_defaults.yaml: the lanes of all models, and
// those of the architectures that have their own. The key "" is that of all models.
func ParseLanes(data []byte) (map[string]Lanes, error) {
	var raw struct {
		Architectures map[string]Lanes `yaml:"architectures"`
		Lanes         Lanes            `yaml:",inline"`
	}
	if err := decodeOne(data, &raw, false); err != nil {
		return nil, fmt.Errorf("it is not a valid %s: %w", LanesFile, err)
	}

	out := map[string]Lanes{"": raw.Lanes}
	maps.Copy(out, raw.Architectures)
	for _, lanes := range out {
		if err := lanes.check(); err != nil {
			return nil, err
		}
	}

	return out, nil
}

func (l Lanes) check() error {
	for backend, versions := range l {
		for version, sms := range versions {
			for sm, lane := range sms {
				if n, err := strconv.Atoi(sm); err != nil || n < 50 || n > 999 {
					return fmt.Errorf("%s %s has the SM %q; it is a number such as 90", backend, version, sm)
				}
				if lane == "" {
					return fmt.Errorf("%s %s names no kernel for SM %s", backend, version, sm)
				}
			}
		}
	}

	return nil
}

// NextLanes returns the text of an attention_lane_defaults.yaml in which a backend's
// version has these kernels by SM. Other entries and comments stay.
func NextLanes(data []byte, backend, version string, lanes map[string]string) ([]byte, error) {
	if _, err := ParseLanes(data); err != nil {
		return nil, err
	}

	out, err := edited(data, func(root *yaml.Node) {
		root.Style = 0
		at := mapping(mapping(root, backend), version)
		for _, sm := range slices.Sorted(maps.Keys(lanes)) {
			if old := child(at, sm); old != nil {
				assign(old, nodeOf(lanes[sm]))
				continue
			}
			key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: sm}
			at.Content = append(at.Content, key, nodeOf(lanes[sm]))
		}
	})
	if err != nil {
		return nil, err
	}
	_, err = ParseLanes(out)
	return out, err
}
