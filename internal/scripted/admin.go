package scripted

import (
	"context"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// admin counts a call and asks Options.Admin.
func (s *Server) admin(method string) error {
	s.mu.Lock()
	s.admins[method]++
	n := s.admins[method]
	s.mu.Unlock()
	if s.options.Admin == nil {
		return nil
	}
	return s.options.Admin(method, n)
}

// CreateTable implements the admin API.
func (s *Server) CreateTable(_ context.Context, r *adminpb.CreateTableRequest) (*adminpb.Table, error) {
	if err := s.admin("CreateTable"); err != nil {
		return nil, err
	}
	name := r.GetParent() + "/tables/" + r.GetTableId()
	families := map[string]*adminpb.ColumnFamily{}
	for f, rule := range r.GetTable().GetColumnFamilies() {
		families[f] = rule
	}
	t := newTable(s.options, families)
	t.visible = time.Now().Add(s.options.VisibleAfter)
	if !s.store.add(name, t) {
		return nil, status.Errorf(codes.AlreadyExists, "table %q already exists", name)
	}
	return t.proto(name), nil
}

// GetTable implements the admin API. It sees a created table at once.
func (s *Server) GetTable(_ context.Context, r *adminpb.GetTableRequest) (*adminpb.Table, error) {
	if err := s.admin("GetTable"); err != nil {
		return nil, err
	}
	t := s.store.get(r.GetName())
	if t == nil {
		return nil, status.Errorf(codes.NotFound, "table %q not found", r.GetName())
	}
	return t.proto(r.GetName()), nil
}

// ListTables implements the admin API.
func (s *Server) ListTables(_ context.Context, r *adminpb.ListTablesRequest) (*adminpb.ListTablesResponse, error) {
	if err := s.admin("ListTables"); err != nil {
		return nil, err
	}
	s.store.mu.RLock()
	defer s.store.mu.RUnlock()
	answer := &adminpb.ListTablesResponse{}
	for name := range s.store.tables {
		if strings.HasPrefix(name, r.GetParent()+"/tables/") {
			answer.Tables = append(answer.Tables, &adminpb.Table{Name: name})
		}
	}
	slices.SortFunc(answer.Tables, func(a, b *adminpb.Table) int { return strings.Compare(a.GetName(), b.GetName()) })
	return answer, nil
}

// DeleteTable implements the admin API.
func (s *Server) DeleteTable(_ context.Context, r *adminpb.DeleteTableRequest) (*emptypb.Empty, error) {
	if err := s.admin("DeleteTable"); err != nil {
		return nil, err
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.store.tables[r.GetName()] == nil {
		return nil, status.Errorf(codes.NotFound, "table %q not found", r.GetName())
	}
	delete(s.store.tables, r.GetName())
	return &emptypb.Empty{}, nil
}

// ModifyColumnFamilies implements the admin API: as the service does, modifications are
// applied in order up to the first that fails, which keeps the earlier ones.
func (s *Server) ModifyColumnFamilies(_ context.Context, r *adminpb.ModifyColumnFamiliesRequest) (*adminpb.Table, error) {
	if err := s.admin("ModifyColumnFamilies"); err != nil {
		return nil, err
	}
	t := s.store.get(r.GetName())
	if t == nil {
		return nil, status.Errorf(codes.NotFound, "table %q not found", r.GetName())
	}
	t.mu.Lock()
	for _, m := range r.GetModifications() {
		if err := t.modify(m); err != nil {
			t.mu.Unlock()
			return nil, err
		}
	}
	t.mu.Unlock()
	return t.proto(r.GetName()), nil
}

// modify needs mu.
func (t *table) modify(m *adminpb.ModifyColumnFamiliesRequest_Modification) error {
	there := t.families[m.GetId()] != nil
	switch change := m.GetMod().(type) {
	case *adminpb.ModifyColumnFamiliesRequest_Modification_Create:
		if there {
			return status.Errorf(codes.AlreadyExists, "family %q already exists", m.GetId())
		}
		t.families[m.GetId()] = change.Create
	case *adminpb.ModifyColumnFamiliesRequest_Modification_Update:
		if !there {
			return status.Errorf(codes.NotFound, "family %q not found", m.GetId())
		}
		t.families[m.GetId()] = change.Update
	default:
		return status.Errorf(codes.Unimplemented, "modification %T", change)
	}
	return nil
}

func (t *table) proto(name string) *adminpb.Table {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p := &adminpb.Table{Name: name, ColumnFamilies: map[string]*adminpb.ColumnFamily{}, Granularity: adminpb.Table_MILLIS}
	for f, rule := range t.families {
		p.ColumnFamilies[f] = proto.Clone(rule).(*adminpb.ColumnFamily)
	}
	return p
}
