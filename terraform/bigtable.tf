locals {
  bigtable_project = try(coalesce(var.bigtable.project, var.project_id), var.project_id)
  bigtable_tables  = try(var.bigtable.tables, {})

  # One rule a family, in the form that nests.
  bigtable_families = merge([for table, t in local.bigtable_tables : {
    for family, f in t.families : "${table}/${family}" => {
      table  = table
      family = family
      rules = [for r in [{ max_version = f.max_versions, max_age = null }, { max_version = null, max_age = f.max_age }] :
      { for kind, value in r : kind => value if value != null } if r.max_version != null || r.max_age != null]
      mode = f.mode
    }
  }]...)
}

resource "google_bigtable_table" "table" {
  for_each = local.bigtable_tables

  project                 = local.bigtable_project
  instance_name           = var.bigtable.instance
  name                    = each.key
  split_keys              = each.value.split_keys
  change_stream_retention = each.value.change_stream_retention
  deletion_protection     = var.deletion_protection ? "PROTECTED" : "UNPROTECTED"

  dynamic "column_family" {
    for_each = each.value.families
    content {
      family = column_family.key
    }
  }

  depends_on = [google_project_service.api]
}

resource "google_bigtable_gc_policy" "family" {
  for_each = { for key, f in local.bigtable_families : key => f if length(f.rules) > 0 }

  project       = local.bigtable_project
  instance_name = var.bigtable.instance
  table         = google_bigtable_table.table[each.value.table].name
  column_family = each.value.family
  # A single rule has no mode.
  gc_rules = jsonencode(merge({ rules = each.value.rules }, length(each.value.rules) > 1 ? { mode = each.value.mode } : {}))
  # A family of a replicated table cannot lose its rule, so a destroy leaves it.
  deletion_policy = "ABANDON"
}

resource "google_bigtable_table_iam_member" "runtime" {
  for_each = setunion(keys(local.bigtable_tables), try(var.bigtable.existing_tables, []))

  project       = local.bigtable_project
  instance_name = var.bigtable.instance
  table         = try(google_bigtable_table.table[each.value].name, each.value)
  role          = "roles/bigtable.user"
  member        = google_service_account.runtime.member
}

# Tables that are not there yet have nothing to bind a role to.
resource "google_bigtable_instance_iam_member" "runtime" {
  for_each = toset(try(["roles/bigtable.user", var.bigtable.create_tables.role], []))

  project  = local.bigtable_project
  instance = var.bigtable.instance
  role     = each.value
  member   = google_service_account.runtime.member
}
