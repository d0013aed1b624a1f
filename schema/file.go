package schema

import (
	"github.com/goccy/go-yaml/ast"
)

// The routes file as it is written. The yaml tags are its keys; with the jsonschema tags
// they are also what schema/routes.schema.json is made from.

type routesFile struct {
	mark
	Routes ordered[routeFile] `yaml:"routes" jsonschema:"required" jsonschema_description:"The routes by name. A route is posted to as /v1/routes/NAME/push."`
}

type routeFile struct {
	mark
	Default              toggle        `yaml:"default" jsonschema_description:"Records posted to / take this route. An only route is the default without saying so."`
	Input                *inputFile    `yaml:"input" jsonschema_description:"How a payload is read."`
	Where                expression    `yaml:"where" jsonschema_description:"Records for which this is false are skipped: acknowledged, counted and not written."`
	OnReject             word          `yaml:"onReject" jsonschema:"enum=fail,enum=drop,enum=deadLetter,default=fail" jsonschema_description:"What becomes of a record that can never be written: fail answers an error so that it is delivered again, drop acknowledges and counts it, deadLetter publishes it to deadLetterTopic."`
	DeadLetterTopic      word          `yaml:"deadLetterTopic" jsonschema_description:"projects/P/topics/T. Written exactly when onReject is deadLetter."`
	ConstraintViolations word          `yaml:"constraintViolations" jsonschema:"enum=reject,enum=retry" jsonschema_description:"Spanner: whether a record that violates a constraint is rejected (default) or tried again. Has to be written out beside onReject: drop."`
	Bigtable             *bigtableFile `yaml:"bigtable" jsonschema_description:"Write to Bigtable. A route has either bigtable or spanner."`
	Spanner              *spannerFile  `yaml:"spanner" jsonschema_description:"Write to Spanner. A route has either bigtable or spanner."`
}

type inputFile struct {
	mark
	Format   word          `yaml:"format" jsonschema:"enum=json,enum=avro,enum=protobuf,enum=bytes,default=json" jsonschema_description:"How the payload is decoded into data. avro and protobuf need their member beside it."`
	Envelope word          `yaml:"envelope" jsonschema:"enum=auto,enum=wrapped,enum=unwrapped,enum=cloudevents,default=auto" jsonschema_description:"How a push wraps its record."`
	Avro     *avroFile     `yaml:"avro" jsonschema_description:"Beside format: avro."`
	Protobuf *protobufFile `yaml:"protobuf" jsonschema_description:"Beside format: protobuf."`
}

type avroFile struct {
	mark
	SchemaFile word `yaml:"schemaFile" jsonschema:"required" jsonschema_description:"File with the writer's Avro schema (.avsc), beside the routes file."`
	Encoding   word `yaml:"encoding" jsonschema:"enum=binary,enum=json,default=binary" jsonschema_description:"How a payload is encoded where the message does not say."`
}

type protobufFile struct {
	mark
	DescriptorSet word `yaml:"descriptorSet" jsonschema:"required" jsonschema_description:"File with a FileDescriptorSet (protoc --include_imports --descriptor_set_out), beside the routes file."`
	Message       word `yaml:"message" jsonschema:"required" jsonschema_description:"Full name of the message."`
	Encoding      word `yaml:"encoding" jsonschema:"enum=binary,enum=json,default=binary" jsonschema_description:"How a payload is encoded where the message does not say."`
}

type bigtableFile struct {
	mark
	Project    word                `yaml:"project" jsonschema_description:"Project id; default PUSHSINK_BIGTABLE_PROJECT."`
	Instance   templateText        `yaml:"instance" jsonschema_description:"Instance id; default PUSHSINK_BIGTABLE_INSTANCE. A template needs allow."`
	Allow      []word              `yaml:"allow" jsonschema_description:"The instances that a templated instance may become."`
	AppProfile word                `yaml:"appProfile" jsonschema_description:"App profile id; default PUSHSINK_BIGTABLE_APP_PROFILE."`
	Table      templateText        `yaml:"table" jsonschema:"required" jsonschema_description:"Table id."`
	RowKey     templateText        `yaml:"rowKey" jsonschema:"required" jsonschema_description:"Row key, 1 to 4096 bytes."`
	Timestamp  expression          `yaml:"timestamp" jsonschema_description:"The cells' timestamp: a timestamp, or an int of milliseconds since 1970. Default message.publishTime."`
	Create     word                `yaml:"create" jsonschema:"enum=never,enum=ifNeeded,default=never" jsonschema_description:"Whether a missing table and its families are created. ifNeeded needs families."`
	MaxTables  number              `yaml:"maxTables" jsonschema:"minimum=1,default=1000" jsonschema_description:"How many tables a templated table may become."`
	Families   ordered[familyFile] `yaml:"families" jsonschema_description:"Column families to create, beside create: ifNeeded."`
	All        *allFile            `yaml:"all" jsonschema_description:"Every top-level field as a cell: strings, bytes and timestamps as they are, everything else as JSON. Goes before set."`
	Set        []cellFile          `yaml:"set" jsonschema_description:"The cells."`
	DeleteWhen expression          `yaml:"deleteWhen" jsonschema_description:"Records for which this is true only delete: what delete says, by default the row."`
	Delete     *deleteFile         `yaml:"delete" jsonschema_description:"row, a family, or a column. Without deleteWhen it is done before all and set."`
}

type familyFile struct {
	mark
	GC *gcFile `yaml:"gc" jsonschema_description:"Garbage collection; without it everything is kept."`
}

func (*familyFile) mayBeEmpty() {}

type gcFile struct {
	mark
	MaxVersions  number   `yaml:"maxVersions" jsonschema:"minimum=1" jsonschema_description:"Keep this many versions of a cell."`
	MaxAge       word     `yaml:"maxAge" jsonschema_description:"Keep cells this long: a duration with a unit, like 168h."`
	Union        []gcFile `yaml:"union" jsonschema:"minItems=2" jsonschema_description:"Collect what any of these rules collects."`
	Intersection []gcFile `yaml:"intersection" jsonschema:"minItems=2" jsonschema_description:"Collect what all of these rules collect."`
}

type allFile struct {
	mark
	Family templateText `yaml:"family" jsonschema:"required" jsonschema_description:"Column family."`
	Null   word         `yaml:"null" jsonschema:"enum=skip,enum=delete,enum=empty,default=skip" jsonschema_description:"What a null does: nothing, delete the column, write an empty cell."`
}

type cellFile struct {
	mark
	Family templateText `yaml:"family" jsonschema:"required" jsonschema_description:"Column family."`
	Column templateText `yaml:"column" jsonschema:"required" jsonschema_description:"Column qualifier, at most 16 KiB; may be empty."`
	Value  expression   `yaml:"value" jsonschema:"required" jsonschema_description:"The value. An absent path leaves the cell alone."`
	As     word         `yaml:"as" jsonschema:"required,enum=string,enum=text,enum=bytes,enum=json,enum=int64,enum=int32,enum=float64,enum=float32,enum=bool" jsonschema_description:"Encoding of the value."`
	Each   expression   `yaml:"each" jsonschema_description:"A list or an object: one cell for each item, with key, value and index."`
	Null   word         `yaml:"null" jsonschema:"enum=skip,enum=delete,enum=empty,default=skip" jsonschema_description:"What a null does: nothing, delete the column, write an empty cell."`
}

// deleteFile is the word row, or {family, column}.
type deleteFile struct {
	mark
	row    bool
	Family templateText `yaml:"family" jsonschema:"required" jsonschema_description:"Column family."`
	Column templateText `yaml:"column" jsonschema_description:"Column qualifier; without it the whole family."`
}

func (f *deleteFile) decode(d *decoder, n ast.Node, path, tag string) {
	if _, isText := scalarText(n); isText {
		var w word
		w.decode(d, n, path, "enum=row")
		f.row = true
		f.setMark(w.at(0))
		return
	}
	type fields deleteFile
	var v fields
	d.structureOf(n, &v, path)
	*f = deleteFile(v)
	f.setMark(markOf(startOf(n)))
}

type spannerFile struct {
	mark
	Database      word                `yaml:"database" jsonschema_description:"projects/P/instances/I/databases/D; default PUSHSINK_SPANNER_DATABASE."`
	Table         word                `yaml:"table" jsonschema:"required" jsonschema_description:"Table, with its schema where it has one."`
	Operation     word                `yaml:"operation" jsonschema:"enum=insertOrUpdate,enum=insert,enum=update,enum=replace,enum=delete,default=insertOrUpdate" jsonschema_description:"What is done with the row."`
	DeleteWhen    expression          `yaml:"deleteWhen" jsonschema_description:"Records for which this is true delete the row instead."`
	Columns       ordered[expression] `yaml:"columns" jsonschema_description:"Column values by column name. An absent path leaves the column out, null is NULL."`
	ColumnsFrom   expression          `yaml:"columnsFrom" jsonschema_description:"An object whose fields give the remaining columns by name."`
	UnknownFields word                `yaml:"unknownFields" jsonschema:"enum=ignore,enum=reject,default=ignore" jsonschema_description:"What a field of columnsFrom without a column does."`
	Coerce        toggle              `yaml:"coerce" jsonschema:"default=false" jsonschema_description:"Take \"12\" for an INT64 column and 5 for a STRING column."`
	OnDuplicate   word                `yaml:"onDuplicate" jsonschema:"enum=ignore,enum=reject" jsonschema_description:"operation: insert finds the row there: an equal row is success, or every duplicate is rejected."`
	Dedup         *dedupFile          `yaml:"dedup" jsonschema_description:"Write a key to a table of its own in the same transaction, so that a record counts once."`
	Children      []childFile         `yaml:"children" jsonschema_description:"Rows of interleaved tables, written in one group with the main row."`
}

type dedupFile struct {
	mark
	Table word         `yaml:"table" jsonschema:"required" jsonschema_description:"The table of keys."`
	Key   templateText `yaml:"key" jsonschema:"default={message.id}" jsonschema_description:"What makes a record the same record."`
}

type childFile struct {
	mark
	Table   word                `yaml:"table" jsonschema:"required" jsonschema_description:"Child table."`
	Each    expression          `yaml:"each" jsonschema:"required" jsonschema_description:"A list or an object: one row for each item, with key, value and index."`
	Columns ordered[expression] `yaml:"columns" jsonschema:"required" jsonschema_description:"Column values by column name."`
}
