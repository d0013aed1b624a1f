CREATE TABLE Events (
  Id STRING(40) NOT NULL,
  Place STRING(MAX),
  Mag NUMERIC,
  HappenedAt TIMESTAMP,
  Coordinates ARRAY<FLOAT64>,
  Properties JSON,
  WrittenAt TIMESTAMP OPTIONS (allow_commit_timestamp = true)
) PRIMARY KEY (Id)
